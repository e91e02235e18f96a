"""Henaff et al., "Tracking the world state with recurrent entity networks", ICLR 2017, equations 2
to 5.

A head is a slot of the memory, w its key, and s the encoded input. U h + W s is the gate n, and V w
its bias. In the paper all slots share U, V and W; here each head has its own. The slope of the
PReLU starts at 1, where it is the identity.
"""

from ..declare import Gate, Param, State, gate, param
from ..functions import rsqrt, sigmoid, where
from ..stages.reductions import total
from ..tracing.trace import cell


@cell
def entity_network(
    n: Gate,
    h: State,
    *,
    s: Gate = gate(recurrent=False, bias=False),
    w: Param,
    slope: Param = param(init=1.0),
):
    """Slots that the input addresses by key and content (Henaff et al., 2017)."""
    candidate = where(n > 0, n, slope * n)
    updated = h + sigmoid(total(s * (h + w))) * candidate
    return updated * rsqrt(total(updated * updated) + 1e-12)
