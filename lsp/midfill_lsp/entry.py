"""The `midfill` script's way in: isolated from what the environment would put in our place.

Owns one decision. An installed script runs without `-I`, so the directories of PYTHONPATH come
before our own packages and all that they need: a workspace on it would have its modules imported
by the server. Where the variable is set, the interpreter is started anew with `-I`, at the cost of
some 20 ms; where it is not, nothing is done. What Python itself imports before our first line
(`sitecustomize`, say) is out of our hands. Nothing else may be imported here before that.
"""

import sys


def main() -> int:
    """Run the command line of this process."""
    import os

    if os.environ.get("PYTHONPATH") and not sys.flags.isolated:
        # `-I` also hides the user's own site-packages, where we may be installed.
        code = "import sys; sys.path.append(sys.argv.pop(1)); from midfill_lsp.cli import main; "
        ours = __file__.rpartition("/midfill_lsp/")[0]
        command = [sys.executable, "-I", "-c", code + "sys.exit(main())", ours, *sys.argv[1:]]
        os.execv(sys.executable, command)
    from midfill_lsp.cli import main as command_line

    return command_line()
