"""Rendering of a day as text and as an image."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..common.rendering import BLUE, GREEN, RED, hide_frame, new_figure, pixels, text_bar
from .days import Day
from .units import MINUTES

BAND = (70.0, 180.0)  # usual target range, mg/dL

_WIDTH = 40  # characters for 400 mg/dL


def text(patient: str, day: Day | None) -> str:
    """One line per hour: glucose as a bar, meals and boluses; `day` is None before the step."""
    if day is None:
        return f"{patient}: midnight, the day has not been simulated yet\n"
    lines = [_title(patient, day)]
    basal = float(np.nanmin(day.insulin))
    for hour in range(24):
        if 60 * hour >= day.simulated:
            lines.append(f"{hour:02d}:00  ended early: glucose outside the limits")
            break
        level = day.glucose[60 * hour]
        bar = text_bar(level, 400.0, _WIDTH)
        samples = slice(60 * hour // day.sample_time, 60 * (hour + 1) // day.sample_time)
        units = float(np.nansum(day.insulin[samples] - basal)) * day.sample_time
        within = (day.minutes >= 60 * hour) & (day.minutes < 60 * (hour + 1))
        notes = [f"{grams:.0f} g" for grams in day.grams[within]]
        notes += [f"{units:.1f} U"] if units > 0.05 else []
        lines.append(f"{hour:02d}:00 {level:4.0f} |{bar}| {', '.join(notes)}".rstrip())
    return "\n".join(lines) + "\n"


def image(patient: str, day: Day | None) -> NDArray[np.uint8]:
    """Glucose, readings and meals above, insulin below; `day` is None before the step."""
    figure = new_figure(6.4, 4.0)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2.4, 1.0))
    upper.axhspan(*BAND, color=GREEN, alpha=0.15, linewidth=0, label="target range")
    upper.set_ylabel("glucose,\nmg/dL")
    lower.set_ylabel("insulin,\nU/min")
    lower.set_xlabel("hour of the day")
    lower.set_xlim(0, 24)
    lower.set_xticks(range(0, 25, 3))
    if day is None:
        upper.set_title(f"{patient}: midnight", fontsize=9)
        upper.set_ylim(40, 300)
        return pixels(figure)
    times = np.arange(day.readings.shape[0]) * day.sample_time / 60.0
    upper.plot(times, day.readings, ".", color="#9aa1ad", markersize=2, label="sensor")
    upper.plot(np.arange(MINUTES + 1) / 60.0, day.glucose, color=BLUE, label="glucose")
    top = max(300.0, 1.15 * float(np.nanmax(day.readings)))
    upper.set_ylim(min(30.0, 0.9 * float(np.nanmin(day.glucose))), top)
    for minute, grams in zip(day.minutes, day.grams, strict=True):
        upper.axvline(minute / 60.0, color="#d98032", linewidth=1, linestyle=":")
        note = f"{grams:.0f} g"
        upper.annotate(note, (minute / 60.0, 0.97 * top), fontsize=8, color="#b35f17", va="top")
    if day.simulated < MINUTES:
        upper.axvspan(day.simulated / 60.0, 24, color=RED, alpha=0.15, label="ended early")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    upper.set_title(_title(patient, day), fontsize=9)
    lower.stairs(day.insulin, times, color=RED, fill=True)
    for axes in (upper, lower):
        hide_frame(axes)
    return pixels(figure)


def _title(patient: str, day: Day) -> str:
    return (
        f"{patient}: CR {day.cr:.1f} g/U, CF {day.cf:.1f} mg/dL/U, "
        f"mean risk {day.mean_risk:.2f}, return {day.reward:.3f}"
    )
