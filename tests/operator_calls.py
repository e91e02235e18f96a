"""Arguments of `rnnc::call`, from the inputs of `rnnc.scan`."""

from __future__ import annotations

from rnnc.runtime.call.layer_call import Choice
from rnnc.runtime.call.settings import Asked, CallText, Settings, write_call


def scan_call(cell, inputs, keep=True, all_states=True, **choice):
    """The tensors of a call that takes wx, and its text.

    The tensors are wx, the states, and those there are of R, b, R_diag and the params.
    """
    params = [inputs.params[p.name] for p in cell.params]
    weights = (None, inputs.R, inputs.b, inputs.R_diag, *params)
    settings = Settings(cell, 1, False, *inputs.wx.shape[2:4], 0.0, "auto", Choice(**choice))
    present = tuple(weight is not None for weight in weights)
    asked = Asked(given=True, takes_wx=True, all_states=all_states)
    text = write_call(CallText(settings, keep, asked, present))
    return [inputs.wx, *inputs.states, *(w for w in weights if w is not None)], text
