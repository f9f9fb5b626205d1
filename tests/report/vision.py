"""Simulated color vision deficiencies, and distances between colors.

The matrices are those of Vienot, Brettel and Mollon (1999) for the two red-green deficiencies, and
of Machado, Oliveira and Fernandes (2009) for tritanopia, on linear RGB.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DEFICIENCIES: dict[str, Array] = {
    "none": np.eye(3),
    "protanopia": np.array(
        [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]]
    ),
    "deuteranopia": np.array(
        [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
    "no colors": np.tile([0.2126, 0.7152, 0.0722], (3, 1)),
}


def parse(color: str) -> Array:
    """sRGB in [0, 1] of a color such as ``#0072b2`` or ``#fff``."""
    digits = color.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    return np.array([int(digits[k : k + 2], 16) for k in (0, 2, 4)]) / 255


def linear(rgb: Array) -> Array:
    """Linear RGB of sRGB."""
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def encoded(rgb: Array) -> Array:
    """SRGB of linear RGB."""
    rgb = np.clip(rgb, 0.0, 1.0)
    return np.where(rgb <= 0.0031308, 12.92 * rgb, 1.055 * rgb ** (1 / 2.4) - 0.055)


def seen(rgb: Array, deficiency: str) -> Array:
    """sRGB as it appears with a deficiency, (..., 3)."""
    return encoded(linear(rgb) @ DEFICIENCIES[deficiency].T)


def lab(rgb: Array) -> Array:
    """CIE L*a*b* of sRGB, for the white of D65."""
    to_xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    )
    xyz = linear(rgb) @ to_xyz.T / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.stack(
        [116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]), 200 * (f[..., 1] - f[..., 2])],
        axis=-1,
    )


def distance(first: str, second: str, deficiency: str) -> float:
    """Distance of two colors in L*a*b*; about 2 is the least that can be noticed."""
    a, b = (lab(seen(parse(color), deficiency)) for color in (first, second))
    return float(np.linalg.norm(a - b))


def contrast(first: str, second: str) -> float:
    """Contrast of two colors, as the Web Content Accessibility Guidelines define it."""
    light = [float(linear(parse(c)) @ [0.2126, 0.7152, 0.0722]) + 0.05 for c in (first, second)]
    return max(light) / min(light)
