"""An editor that a test kills: it starts a server, has it fill a hole, and says its process id.

Given an argument, it also leaves a child behind that holds the pipe to the server open.
"""

import json
import os
import subprocess
import sys

from midfill_lsp.framing import Frames, framed

URI = "file:///project/example.py"


def main() -> None:
    settings = json.loads(sys.stdin.readline())
    server = subprocess.Popen(
        settings["command"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    if settings["leaves_a_child"]:
        # The child ends with the test, which has the other end of our stdin.
        wait = [sys.executable, "-I", "-c", "import sys; sys.stdin.read()"]
        subprocess.Popen(wait, pass_fds=[server.stdin.fileno()])
    ask = {"processId": os.getpid(), "rootUri": None, "capabilities": {}}
    send(server, "initialize", ask | {"initializationOptions": settings["options"]}, msg_id=1)
    send(server, "initialized", {})
    item = {"uri": URI, "languageId": "python", "version": 1, "text": "print()\n"}
    send(server, "textDocument/didOpen", {"textDocument": item})
    where = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 6}}
    params = where | {"context": {"triggerKind": 1}}
    send(server, "textDocument/inlineCompletion", params, msg_id=2)
    items = answer(server, 2)["items"]
    sys.stdout.write(json.dumps({"server": server.pid, "items": items}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


def send(server, method, params, msg_id=None):
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    message |= {} if msg_id is None else {"id": msg_id}
    server.stdin.write(framed(json.dumps(message).encode()))


def answer(server, msg_id):
    frames = Frames()
    while chunk := os.read(server.stdout.fileno(), 65536):
        for message in map(json.loads, frames.feed(chunk)):
            if message.get("id") == msg_id:
                return message["result"]
    raise SystemExit("the server has ended")


main()
