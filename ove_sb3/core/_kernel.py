"""The one compiled pass over the logged steps (see `step_reduction`)."""

from __future__ import annotations

import numba
import numpy as np

from ove_sb3._validation import FloatArray, IntArray

LARGEST_LOG_WEIGHT = 709.0  # exp of more than this is not a finite double

_TILE = 512
_LANES = 64  # of a minimum or maximum, so that the loop becomes SIMD code
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10


@numba.njit(inline="always")
def _exp(x: float) -> float:
    """exp(x) for x <= 709, without branches so that the loop around it becomes SIMD code.

    Range reduction x = k ln 2 + r, a Taylor polynomial of degree 13 on |r| <= ln(2)/2 (error below
    one unit in the last place), and 2^k put together from its bits. Below about -708 the result
    is exactly 0: weights that small are negligible, and -inf (a ratio of 0) needs no special case.
    """
    x = max(x, -745.0)
    k = np.floor(x * _LOG2_E + 0.5)
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    exponent = max(int(k) + 1023, 0)
    return float(p * np.int64(exponent << 52).view(np.float64))


@numba.njit(cache=True, nogil=True)
def _keep_smallest(x: FloatArray, smallest: FloatArray) -> None:
    """Lower the entries of `smallest`, (_LANES,), to those of `x`, every one to its own share."""
    whole = x.shape[0] // _LANES * _LANES
    for i in range(0, whole, _LANES):
        for j in range(_LANES):
            smallest[j] = x[i + j] if x[i + j] < smallest[j] else smallest[j]
    for i in range(whole, x.shape[0]):
        smallest[0] = x[i] if x[i] < smallest[0] else smallest[0]


@numba.njit(cache=True, nogil=True)
def _keep_largest(x: FloatArray, largest: FloatArray) -> None:
    """Raise the entries of `largest`, (_LANES,), to those of `x`, every one to its own share."""
    whole = x.shape[0] // _LANES * _LANES
    for i in range(0, whole, _LANES):
        for j in range(_LANES):
            largest[j] = x[i + j] if x[i + j] > largest[j] else largest[j]
    for i in range(whole, x.shape[0]):
        largest[0] = x[i] if x[i] > largest[0] else largest[0]


@numba.njit(cache=True, nogil=True)
def _count(log_ratios: FloatArray, rewards: FloatArray, counts: IntArray) -> None:
    """Add the numbers of ratios that are exactly 0, and of invalid entries."""
    zeros = invalid = 0
    for t in range(log_ratios.shape[0]):
        zeros += log_ratios[t] == -np.inf
        invalid += not log_ratios[t] < np.inf
        invalid += not abs(rewards[t]) < np.inf
    counts[0] += zeros
    counts[1] += invalid


@numba.njit(cache=True, nogil=True, fastmath={"nsz", "arcp", "contract", "reassoc"})
def accumulate(
    log_ratios: FloatArray,
    rewards: FloatArray,
    starts: IntArray,
    lengths: IntArray,
    discounts: FloatArray,
    discounted_steps: FloatArray,
    horizon_limit: float,
    columns: FloatArray,
    step_sums: FloatArray,
    end_sums: FloatArray,
    extremes: FloatArray,
) -> None:
    """Fill `columns`, `step_sums`, `end_sums` and `extremes` for a run of trajectories.

    Parameters
    ----------
    log_ratios, rewards
        All steps, (n_steps,).
    starts, lengths
        First step and number of steps of the trajectories to process, one after another, (m,).
    discounts
        gamma^t, (longest,).
    discounted_steps
        C_t = 1 + gamma + ... of t terms, (longest + 1,); `horizon_limit` is C at the horizon.
    columns
        Output (7, m): w, G, Y, X, A, B, E.
    step_sums
        Output, added to, (5, longest): sums over trajectories still running at step t of
        rho_t, rho_t S_{t-1}, rho_t S_{t-1}^2, rho_t S_t, rho_t S_t^2.
    end_sums
        Output, added to, (3, longest + 1): sums of w, w G, w G^2 by episode length.
    extremes
        Output (6,): smallest and largest reward, largest log-ratio, largest log-weight on the way,
        number of ratios that are exactly 0, number of invalid entries: rewards that are not
        finite, log-ratios that are NaN or +inf.
    """
    # Episodes are taken in tiles of about _TILE steps: short ones share one SIMD loop of exp.
    rho_tile = np.empty(discounts.shape[0] + _TILE)
    partial_tile = np.empty(discounts.shape[0] + 2 * _TILE)  # S_t, preceded by S_{-1} = 0
    low, high = np.full(_LANES, np.inf), np.full(_LANES, -np.inf)
    largest_ratio, largest_weight = np.full(_LANES, -np.inf), np.full(_LANES, -np.inf)
    counts = np.zeros(2, np.int64)
    n = lengths.shape[0]
    done = 0
    while done < n:
        used = 0
        end = done
        while end < n and used < _TILE:
            first, length = starts[end], lengths[end]
            rho = rho_tile[used : used + length]
            partial = partial_tile[used + end - done :][: length + 1]
            log_weight = 0.0
            total = 0.0
            partial[0] = 0.0
            for t in range(length):
                log_weight += log_ratios[first + t]
                rho[t] = log_weight
                total += discounts[t] * rewards[first + t]
                partial[t + 1] = total
            used += length
            end += 1
        steps = slice(starts[done], starts[done] + used)
        _count(log_ratios[steps], rewards[steps], counts)
        _keep_smallest(rewards[steps], low)
        _keep_largest(rewards[steps], high)
        _keep_largest(log_ratios[steps], largest_ratio)
        _keep_largest(rho_tile[:used], largest_weight)
        for t in range(used):
            rho_tile[t] = _exp(rho_tile[t])
        used = 0
        for i in range(done, end):
            first, length = starts[i], lengths[i]
            rho = rho_tile[used : used + length]
            partial = partial_tile[used + i - done :][: length + 1]
            reward_ = rewards[first : first + length]
            used += length
            Y = X = A = B = E = 0.0
            for t in range(length):
                weight, before, after = rho[t], partial[t], partial[t + 1]
                gained = weight * discounts[t] * reward_[t]  # rho_t (S_t - S_{t-1})
                passed = weight * discounts[t]  # rho_t (C_t - C_{t-1})
                Y += gained
                X += gained * (after + before)
                A += passed
                B += passed * (discounted_steps[t + 1] + discounted_steps[t])
                E += gained * discounted_steps[t + 1] + passed * before
                step_sums[0, t] += weight
                step_sums[1, t] += weight * before
                step_sums[2, t] += weight * before * before
                step_sums[3, t] += weight * after
                step_sums[4, t] += weight * after * after
            w, G = rho[length - 1], partial[length]
            missing = horizon_limit - discounted_steps[length]  # padding: C_T - C_t
            columns[0, i] = w
            columns[1, i] = G
            columns[2, i] = Y
            columns[3, i] = X
            columns[4, i] = A + w * missing
            columns[5, i] = B + w * missing * (horizon_limit + discounted_steps[length])
            columns[6, i] = E + w * G * missing
            end_sums[0, length] += w
            end_sums[1, length] += w * G
            end_sums[2, length] += w * G * G
        done = end
    extremes[0] = low.min()
    extremes[1] = high.max()
    extremes[2] = largest_ratio.max()
    extremes[3] = largest_weight.max()
    extremes[4], extremes[5] = counts
