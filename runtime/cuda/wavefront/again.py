"""What a recorded call does with the streams of a wavefront, done again."""

from __future__ import annotations

from ...replay.entries import Running
from ...replay.recorder import Recorder
from .lanes import Lane, Lanes


def fork_again(recorder: Recorder, lanes: Lanes) -> None:
    """Record that the streams were forked. A replay that fails joins them.

    Args:
        recorder: records the call.
        lanes: the streams.
    """

    def fork(running: Running) -> None:
        lanes.fork(running.stream)
        running.undo.append(lanes.join)

    recorder.fork(fork)


def enter_again(recorder: Recorder, lanes: Lanes, lane: Lane) -> None:
    """Record that a stream entered.

    Args:
        recorder: records the call.
        lanes: the streams.
        lane: the one that entered.
    """
    recorder.add(lambda _: lanes.enter(lane), [], beside=True)


def leave_again(recorder: Recorder, lanes: Lanes, lane: Lane) -> None:
    """Record that a stream left. What it used stays in place until all are joined.

    Args:
        recorder: records the call.
        lanes: the streams.
        lane: the one that left.
    """
    recorder.add(lambda _: lanes.leave(lane), [], beside=True)


def join_again(recorder: Recorder, lanes: Lanes) -> None:
    """Record that the streams were joined.

    Args:
        recorder: records the call.
        lanes: the streams.
    """

    def join(running: Running) -> None:
        running.undo.pop()
        lanes.join()

    recorder.join(join)
