"""Rendering of a recommendation as text and as an image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..common.rendering import BLUE, LIGHT_GRAY, RED, hide_frame, new_figure, pixels, text_bar
from .model import Market

_WIDTH = 30  # characters of the longest bar


def text(market: Market, context: int, last: tuple[int, float] | None) -> str:
    """One bar per item for its mean interest, and an arrow at the recommended item.

    Parameters
    ----------
    market
        Users and items.
    context
        Context of the user, or -1 before the first episode.
    last
        Recommended item and its reward, or None before the recommendation.
    """
    context = max(context, 0)
    lines = [f"context {context}"]
    for item, mean in enumerate(np.clip(market.means[context], market.low, market.high)):
        bar = text_bar(mean - market.low, market.high - market.low, _WIDTH)
        chosen = last is not None and last[0] == item
        note = f"  <- reward {last[1]:.3f}" if chosen and last is not None else ""
        lines.append(f"item {item:2d} |{bar}| {mean:7.3f}{note}")
    return "\n".join(lines) + "\n"


def image(market: Market, context: int, last: tuple[int, float] | None) -> NDArray[np.uint8]:
    """Bars of mean interest with two standard deviations; parameters as in `text`."""
    context = max(context, 0)
    means, sds = market.means[context], market.sds[context]
    items = np.arange(means.shape[0])
    colors = [LIGHT_GRAY] * items.shape[0]
    if last is not None:
        colors[last[0]] = BLUE
    figure = new_figure(4.0, 2.6)
    axes = figure.add_subplot()
    axes.bar(
        items, np.clip(means, market.low, market.high) - market.low, 0.7, market.low, color=colors
    )
    axes.errorbar(items, means, 2.0 * sds, fmt="none", ecolor="#444444", elinewidth=1.2, capsize=3)
    if last is not None:
        label = f"reward {last[1]:.2f}"
        axes.plot([last[0]], [last[1]], "o", color=RED, markersize=6, label=label)
        axes.legend(loc="upper right", fontsize=8, frameon=False)
    axes.set_ylim(market.low, market.high + 0.12 * (market.high - market.low))
    axes.set_xticks(items if items.shape[0] <= 12 else items[:: items.shape[0] // 12 + 1])
    axes.set_xlabel("item")
    axes.set_ylabel("interest")
    title = "waiting for a recommendation" if last is None else f"item {last[0]} recommended"
    axes.set_title(f"context {context}: {title}", fontsize=9)
    hide_frame(axes)
    return pixels(figure)
