"""Attention over the keys and values of a batch, in place of what transformers brings.

The chunk that the rows of a group have in common is read once for all of them and never copied, each row's tail is its
own, and the two parts are joined by their log-sum-exp (or, for few rows, by one softmax). So a row's numbers do not
depend on its batch mates, save for float noise. A sliding window is a mask over the same tensors.
`Plan` says which tokens of a forward pass belong to which row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from nightschool.engine.backends.torch_kv import Group
from nightschool.engine.types import EngineError

NAME = "nightschool"
HIDDEN = -1e30
"""Added to the score of a key that a query must not see; finite, so that a part without keys stays a number."""
FLASH_QUERIES = 16
"""With fewer queries a plain product is faster than the fused kernel."""


@dataclass(slots=True)
class Span:
    """Tokens `start` to `end` of a forward pass: the next ones of the row in this slot of this group."""

    group: Group
    slot: int
    start: int
    end: int


@dataclass(slots=True)
class Plan:
    """One forward pass: either `spans`, tokens of several rows in one sequence, or one token for each row of `groups`.

    The rows of a group are one behind the other in the batch, by slot.
    """

    spans: list[Span] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    masks: dict[Any, Any] = field(default_factory=dict)

    def advance(self) -> None:
        """The pass is over: the tails are longer by what it wrote."""
        for span in self.spans:
            span.group.lengths[span.slot] += span.end - span.start
        for group in self.groups:
            group.lengths = [length + 1 for length in group.lengths]


@dataclass(slots=True)
class New:
    """Keys and values of one layer that a forward pass adds, on their way from the cache to attention."""

    plan: Plan
    layer: int
    keys: torch.Tensor
    values: torch.Tensor


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: New,
    value: None,
    attention_mask: None,
    scaling: float,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls: query (batch, heads, tokens, size) to output (batch, tokens, heads, size).

    Models with soft-capped scores or sinks are refused when they are loaded.
    """
    if softcap is not None or s_aux is not None:
        raise EngineError("this model's attention cannot be computed here", "choose another model")
    window = sliding_window or 0
    if key.plan.spans:
        return _packed(query, key, scaling, window), None
    return _decode(query[:, :, 0], key, scaling, window)[:, None], None


def _packed(query: torch.Tensor, new: New, scale: float, window: int) -> torch.Tensor:
    """Several tokens of several rows, one row after the other in a single sequence."""
    outputs = []
    for span in new.plan.spans:
        part = slice(span.start, span.end)
        group, slot = span.group, span.slot
        group.write(new.layer, slot, new.keys[0, :, part], new.values[0, :, part])
        before = group.lengths[slot]
        end = before + span.end - span.start
        q = query[:, :, part]
        keys, values = group.keys[new.layer][None, slot, :, :end], group.values[new.layer][None, slot, :, :end]
        causal = before == 0 and not 0 < window < end
        mask = None if causal else _mask(new.plan, ("tail", span.start, window), q, before, 0, end, window)
        result = attend(q, keys, values, scale, mask, causal)
        if group.root is not None:
            mask = None
            if 0 < window < group.start + end:
                mask = _mask(new.plan, ("root", span.start, window), q, group.start + before, 0, group.start, window)
            root = new.layer, group.root
            result = join(result, attend(q, root[1].keys[root[0]][None], root[1].values[root[0]][None], scale, mask))
        outputs.append(result[0].transpose(1, 2))
    return torch.cat(outputs, 1)


def _mask(
    plan: Plan, name: tuple[str, int, int], q: torch.Tensor, first: int, key0: int, key1: int, window: int
) -> torch.Tensor:
    """Queries at first, first + 1, ... against keys key0..key1-1, made once for all layers of a pass."""
    if name not in plan.masks:
        where = torch.arange(first, first + q.shape[2], device=q.device)[:, None]
        keys = torch.arange(key0, key1, device=q.device)
        hidden = (keys > where) if not window else (keys > where) | (keys <= where - window)
        plan.masks[name] = torch.zeros(hidden.shape, dtype=q.dtype, device=q.device).masked_fill_(hidden, HIDDEN)
    mask: torch.Tensor = plan.masks[name]
    return mask[None, None]


def _decode(query: torch.Tensor, new: New, scale: float, window: int) -> torch.Tensor:
    """One token for each row of each group; query (rows, heads, size)."""
    keys, values = new.keys[:, :, 0], new.values[:, :, 0]
    outputs = []
    first = 0
    for group in new.plan.groups:
        part = slice(first, first + len(group.lengths))
        first = part.stop
        outputs.append(_decode_group(new.plan, group, new.layer, query[part], keys[part], values[part], scale, window))
    return outputs[0] if len(outputs) == 1 else torch.cat(outputs)


def _decode_group(
    plan: Plan,
    group: Group,
    layer: int,
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    scale: float,
    window: int,
) -> torch.Tensor:
    at, tail_mask, root_mask = _decode_masks(plan, group, window, query)
    group.write_each(layer, at, keys, values)
    rows, heads = keys.shape[:2]
    end = max(group.lengths) + 1
    q = query.unflatten(1, (heads, -1))
    tail = group.keys[layer][:rows, :, :end], group.values[layer][:rows, :, :end]
    if group.root is None:
        return attend(q, *tail, scale, tail_mask)[0].flatten(1, 2)
    root = group.root.keys[layer], group.root.values[layer]
    if q.device.type != "cpu" or rows * q.shape[2] < FLASH_QUERIES:
        return _jointly(q * scale, root, tail, root_mask, tail_mask).flatten(1, 2)
    together = q.transpose(0, 1).flatten(1, 2)[None]
    output, weight = attend(together, root[0][None], root[1][None], scale, root_mask)
    apart = (part[0].unflatten(1, (rows, -1)).transpose(0, 1) for part in (output, weight))
    return join(attend(q, *tail, scale, tail_mask), (next(apart), next(apart)))[0].flatten(1, 2)


def _jointly(
    q: torch.Tensor,
    root: tuple[torch.Tensor, torch.Tensor],
    tail: tuple[torch.Tensor, torch.Tensor],
    root_mask: torch.Tensor | None,
    tail_mask: torch.Tensor | None,
) -> torch.Tensor:
    """Attention over root and tail by one softmax: the fewest operations, for few rows. q (rows, heads, n, size)."""
    near = torch.matmul(q, tail[0].transpose(2, 3))
    far = torch.matmul(q.transpose(0, 1).flatten(1, 2), root[0].transpose(1, 2))
    if tail_mask is not None:
        near = near + tail_mask
    if root_mask is not None:
        far = far + root_mask[0]
    far = far.unflatten(1, (len(q), -1)).transpose(0, 1)
    share = torch.cat([far, near], 3).softmax(3, dtype=torch.float32).to(q.dtype)
    far, near = share.split([far.shape[3], near.shape[3]], 3)
    output = torch.matmul(far.transpose(0, 1).flatten(1, 2), root[1])
    return torch.matmul(near, tail[1]) + output.unflatten(1, (len(q), -1)).transpose(0, 1)


def _decode_masks(
    plan: Plan, group: Group, window: int, query: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Where each row writes, and what it must not see: behind its own tail's end, and before its window."""
    name = (id(group), window)
    if name not in plan.masks:
        device, dtype = query.device, query.dtype
        at = torch.tensor(group.lengths, device=device)
        tokens = torch.arange(max(group.lengths) + 1, device=device)
        hidden = tokens > at[:, None]
        root = None
        if window:
            hidden |= tokens <= at[:, None] - window
        if window and group.start + max(group.lengths) >= window and group.root is not None:
            seen = torch.arange(group.start, device=device) > group.start + at[:, None] - window
            heads = group.root.keys[0].shape[0]
            seen = seen.repeat_interleave(query.shape[1] // heads, 0)
            root = torch.zeros(seen.shape, dtype=dtype, device=device).masked_fill_(~seen, HIDDEN)[None, None]
        tail = None
        if bool(hidden.any()):
            tail = torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, HIDDEN)[:, None, None]
        plan.masks[name] = (at, tail, root)
    found: tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None] = plan.masks[name]
    return found


def attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    scale: float,
    mask: torch.Tensor | None = None,
    causal: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention (batch, heads, queries, size), and the log-sum-exp of its scores."""
    if q.device.type == "cpu" and q.shape[0] * q.shape[2] >= FLASH_QUERIES:
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        output, weight = flash(q, k, v, 0.0, causal, attn_mask=mask, scale=scale)
        return output, weight
    if k.shape[1] != q.shape[1]:
        k, v = (part.repeat_interleave(q.shape[1] // k.shape[1], 1) for part in (k, v))
    scores = torch.matmul(q, k.transpose(2, 3)).float() * scale
    if causal:
        mask = torch.full(scores.shape[2:], HIDDEN, device=q.device).triu_(1)
    if mask is not None:
        scores = scores + mask
    weight = scores.logsumexp(3)
    return torch.matmul((scores - weight[..., None]).exp_().to(v.dtype), v), weight


def join(
    one: tuple[torch.Tensor, torch.Tensor], other: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over two sets of keys from attention over each."""
    share = torch.sigmoid(other[1] - one[1])[..., None].to(one[0].dtype)
    return torch.lerp(one[0], other[0], share), torch.logaddexp(one[1], other[1])
