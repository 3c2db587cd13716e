"""What pages ask for, done by the training thread: at the end of a step, or when the program has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..nn import Module
from ..train.positions import random_state, restore_random_state
from .capturing import KeptCapture, capture_message
from .changing import apply_change
from .commands import CHANGES, PageCommand, RefusedCommand
from .comparison import compare_message, compared
from .measures import CollectedScores, ScoreBoard
from .outboxes import Outbox
from .pipeline import asked_of, predict, stages_of

if TYPE_CHECKING:
    from .session import Session
    from .watching import TrainingWatch

OF_TRAINING = CHANGES | {"pause", "resume", "step"}  # what a program that has ended can do no more


def obey_command(session: Session, watch: TrainingWatch, command: PageCommand, outbox: Outbox) -> str | None:
    """Do it; what to answer, None if the answer is a message of its own. Raises RefusedCommand."""
    if command.kind in CHANGES:
        return _change(session, watch, command)
    return _DOINGS[command.kind](session, watch, command, outbox)


def _change(session: Session, watch: TrainingWatch, command: PageCommand) -> str:
    model = _model(watch)
    sample = watch.samples[0] if watch.samples else None
    done = apply_change(command, model, watch.optimizer, sample)
    session.note_structure()
    session.note_mark(command.kind, done)
    return f"{done}, after step {watch.n_steps}"


def _model(watch: TrainingWatch) -> Module:
    model = watch.model
    if model is None:
        raise RefusedCommand("no module was found that has the optimizer's parameters; say ex.studio(model)")
    return model


def _pause(session: Session, watch: TrainingWatch, command: PageCommand, outbox: Outbox) -> str:
    session.is_paused = True
    return f"paused after step {watch.n_steps}"


def _resume(session: Session, watch: TrainingWatch, command: PageCommand, outbox: Outbox) -> str:
    session.is_paused = False
    return "resumed"


def _step(session: Session, watch: TrainingWatch, command: PageCommand, outbox: Outbox) -> str:
    session.is_paused = session.steps_once = session.wants_capture = True
    return f"one more step, number {watch.n_steps + 1}"


def _pipeline(session: Session, watch: TrainingWatch, command: PageCommand, outbox: Outbox) -> None:
    message = pipeline_message(session, watch)
    session.pipeline = message
    session.outboxes.post(message)


def pipeline_message(session: Session, watch: TrainingWatch) -> dict[str, Any]:
    """The stages of the last input."""
    model = _model(watch)
    if not watch.samples:
        raise RefusedCommand("pipeline: no iteration was captured yet")
    metrics = session.runs[-1].epochs[-1]["figures"] if session.runs and session.runs[-1].epochs else None
    shown = {k: v for k, v in (metrics or {}).items() if "accuracy" in k}
    try:
        stages = stages_of(model, watch.samples, watch.last_loss, shown, session.classes)
        asked = asked_of(model, watch.samples)
    except Exception as error:
        raise RefusedCommand(f"pipeline: {type(error).__name__}: {error}") from error
    return {
        "type": "pipeline",
        "step": watch.n_steps,
        "stages": stages,
        "asks": asked.as_json() if asked is not None else None,
        "why": "" if asked is not None else "this model takes no single sequence of numbers, so none can be typed",
    }


def _predict(session: Session, watch: TrainingWatch, command: PageCommand, outbox: Outbox) -> None:
    answer: dict[str, Any] = {"type": "prediction", "id": command.id, "step": watch.n_steps}
    try:
        numbers, captured, found = predict(_model(watch), watch.samples, command.fields["sequence"], session.classes)
    except RefusedCommand as refused:
        outbox.answer({**answer, "ok": False, "error": str(refused)})
        return
    kept = KeptCapture(-1, captured.finished(), captured)
    about = {"run": 0, "step": watch.n_steps, "title": "prediction", "seconds": None}
    message = capture_message(kept, about, None, captured)
    session.captures.add(kept)
    outbox.answer({**answer, "ok": True, "input": numbers, **found, "capture": message})


def _metrics(session: Session, watch: TrainingWatch, command: PageCommand, outbox: Outbox) -> None:
    evaluate_scores(session, watch)
    fields = command.fields
    outbox.answer(session.metrics_message(fields["threshold"], fields["positive"]))


def evaluate_scores(session: Session, watch: TrainingWatch) -> None:
    """Scores on the data for validation, or for training where there is none, without a trace of it."""
    trainer = watch.trainer
    if trainer is None:
        if session.board is None:
            raise RefusedCommand("metrics: a loop tells its scores by `watched.scores(truth, predicted)`")
        return
    loaders = trainer.loaders
    data = loaders[1] if loaders[1] is not None else loaders[0]
    collected = CollectedScores()
    before = random_state(*loaders)
    try:
        trainer.evaluate(data, metrics={"scores": collected})
    except Exception as error:
        raise RefusedCommand(f"metrics: {type(error).__name__}: {error}") from error
    finally:
        restore_random_state(before, *loaders)
    note_collected(session, collected, watch.n_steps)


def note_collected(session: Session, collected: CollectedScores, step: int) -> None:
    """Show what was collected."""
    if not collected.truth:
        raise RefusedCommand("metrics: there were no samples")
    truth, scores = (np.concatenate(parts) for parts in (collected.truth, collected.scores))
    session.note_scores(ScoreBoard(truth, scores, session.classes, step))


def _compare(session: Session, watch: TrainingWatch, command: PageCommand, outbox: Outbox) -> None:
    session.is_measuring = True
    session.post_state()
    running = {"type": "compare", "id": command.id, "status": "running", "text": "measuring; training waits"}
    session.outboxes.post(running)
    try:
        found = compared(watch, session.make_torch_step)
        session.outboxes.post(compare_message(command.id, found, watch.trainer is None))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        session.outboxes.post({"type": "compare", "id": command.id, "status": "failed", "error": said})
    finally:
        session.is_measuring = False


_DOINGS = {
    "pause": _pause,
    "resume": _resume,
    "step": _step,
    "pipeline": _pipeline,
    "predict": _predict,
    "metrics": _metrics,
    "compare": _compare,
}
