"""Everything the engine raises on purpose.

EngineError
├── ModelError             the model on disk is not usable; the message names the file and the fault
│   ├── ModelMissing       nothing has been fetched yet
│   ├── ModelCorrupt       a hash, a shape or a header is not what it must be
│   └── ModelUnsupported   a sound file of a kind we cannot run
├── FetchError             a model could not be fetched or stored
├── ProtocolError          a frame that is no message of ours, or one of another version
├── WorkerLost             the worker went away while a request was in flight
├── WorkerUnavailable      no worker could be started
│   └── WorkerOutdated     one of another version of midfill is there, and others use it
├── RequestRejected        the worker refused the request; the message says why
├── RequestCancelled       the caller withdrew the request
└── TrainingError          a training run or a corpus cannot be made of what was given for it
    └── TrainingFailed     it could not be done, whatever was given
"""

from __future__ import annotations


class EngineError(Exception):
    """Root of the engine's exceptions. `str(error)` is one line fit for a user."""


class ModelError(EngineError):
    """The model on disk is not usable."""


class ModelMissing(ModelError):
    """No model has been fetched."""


class ModelCorrupt(ModelError):
    """A file of the model is not what its hash, header or shape says."""


class ModelUnsupported(ModelError):
    """The model is sound, but of a kind this engine does not run."""


class FetchError(EngineError):
    """A model could not be fetched, checked or stored."""


class ProtocolError(EngineError):
    """A frame that does not decode to a message, or a peer of another version."""


class WorkerLost(EngineError):
    """The worker went away before it answered."""


class WorkerUnavailable(EngineError):
    """No worker could be started."""


class WorkerOutdated(WorkerUnavailable):
    """The worker belongs to another version of midfill, and other clients need it."""


class RequestRejected(EngineError):
    """The worker refused the request."""


class RequestCancelled(EngineError):
    """The request was withdrawn before it was answered."""


class TrainingError(EngineError):
    """Something that whoever started a training run can put right."""


class TrainingFailed(TrainingError):
    """A process of a training died, a download failed, or what draws curves is not installed."""
