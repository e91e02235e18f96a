"""The display of a cell in a terminal and in a notebook."""

from __future__ import annotations

import rnnc


def test_a_cell_is_one_short_line() -> None:
    assert repr(rnnc.cells.lstm) == "<rnnc.Cell lstm: gates i f z o; states h c>"
    assert repr([rnnc.cells.leaky_rate]) == (
        "[<rnnc.Cell leaky_rate: gates g; states h; constants alpha>]"
    )


def test_tab_completion_offers_what_belongs_to_cells() -> None:
    offered = {name for name in dir(rnnc.cells.lstm) if not name.startswith("__")}
    wanted = "name doc gates states params constants updates equations latex cpp cuda to_json"
    assert set(wanted.split()) | {"from_json", "with_constants", "backward_equations"} <= offered
    assert not {name for name in offered if name.startswith(("_", "model_", "parse_"))}
    assert not offered & {"json", "dict", "copy", "construct", "update_forward_refs"}
