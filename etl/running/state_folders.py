"""Where the runs of a pipeline keep their state and their dead letters; what only reads these need not import how a run works."""

from __future__ import annotations

from etl.api import EtlError, Sink
from etl.catalogue import installed
from etl.config.model import Pipeline
from etl.spark.state.folder import StateFolder, state_path


def state_folder(pipeline: Pipeline, chosen: str | None, several: bool = False) -> StateFolder:
    """The state folder of a pipeline's runs, with the value of ``--state``. ``several``: it runs with others."""
    return StateFolder.of(pipeline.name, chosen and _state_folder(pipeline.name, chosen, several))


def _state_folder(pipeline: str, chosen: str, several: bool) -> str:
    """``--state`` itself for one pipeline, a folder below it for each of several. A pipeline that ran with others before keeps
    its folder. Raises EtlError if the folder holds the state of a pipeline that ran alone."""
    root = state_path(chosen)
    below = root / pipeline
    if StateFolder(root).has_run:
        if several:
            raise EtlError(
                f"state folder {root} holds the state of one pipeline, and of several each has a folder below it: choose "
                f"another folder with --state, or move its content to {root}/NAME, where NAME is that pipeline's name"
            )
        return str(root)
    return str(below if several or StateFolder(below).has_run else root)


def dead_letters(pipeline: Pipeline, state: StateFolder) -> Sink:
    """The pipeline's sink for rejected events, else a file in its state folder."""
    if pipeline.dead_letters is not None:
        return pipeline.dead_letters
    sink = installed().families["sink"]["file"].model_validate({"type": "file", "path": str(state.dead_letters)})
    assert isinstance(sink, Sink)
    return sink
