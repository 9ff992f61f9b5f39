"""What a user can do about a model that is not usable."""

from midfill_engine.errors import ModelError, ModelMissing


def advice(error: ModelError, model: str) -> str:
    """The error and the way out, on one line."""
    if isinstance(error, ModelMissing) and model == "embedded":
        return f"{error}; run `midfill model fetch embedded`"
    return f"{error} (the model asked for is {model!r})"
