"""Linear assignment by shortest augmenting paths, many problems at once; the permanent by a sum over sets of columns."""

from __future__ import annotations

import numpy as np

from .caching import njit

_BIDS = 4  # bids per row before the search takes over


@njit(fastmath={"nnan", "nsz"})
def _augment(scores, n, start, u, w, row_of, column_of, distance, previous, shut):
    """Dijkstra from an unmatched row to the nearest free column, over the reduced costs u_i + w_j - s_ij >= 0.

    The loops over columns have no branches, so that they run on vector registers: a column that is done is shut by an
    infinite cost.
    """
    total = row_of.shape[0]
    for j in range(total):
        distance[j] = np.inf
        shut[j] = 0.0
    i, low, sink = start, 0.0, -1
    while sink < 0:
        row, base, least = scores[i], low + u[i], np.inf
        for j in range(n):
            d = base + w[j] - row[j] + shut[j]
            better = d < distance[j]
            distance[j] = d if better else distance[j]
            previous[j] = i if better else previous[j]
            key = distance[j] + shut[j]
            least = key if key < least else least
        for j in range(n, total):
            d = base + w[j] - row[n] + shut[j]
            better = d < distance[j]
            distance[j] = d if better else distance[j]
            previous[j] = i if better else previous[j]
            key = distance[j] + shut[j]
            least = key if key < least else least
        best = -1
        for j in range(total):
            if distance[j] + shut[j] == least:
                best = j
                if row_of[j] < 0:  # of equally near columns a free one ends the search
                    break
        low = least
        if row_of[best] < 0:
            sink = best
        else:
            shut[best] = np.inf
            i = row_of[best]
    u[start] -= low
    for j in range(total):
        if shut[j] > 0:
            u[row_of[j]] -= low - distance[j]
            w[j] += low - distance[j]
    j = sink
    while True:
        i = previous[j]
        row_of[j] = i
        column_of[i], j = j, column_of[i]
        if i == start:
            break


@njit(fastmath={"nnan", "nsz"})
def _bid(scores, n, w, row_of, column_of, waiting, value):
    """Rows take their best column and raise its dual to where the second best is as good; who held it bids again.

    The augmenting row reduction of Jonker and Volgenant: most rows find their column here. Duals only rise, and only
    those of held columns; a limited number of bids, since rounding may let two rows bid for ever.
    """
    m, total = scores.shape[0], row_of.shape[0]
    for i in range(m):
        waiting[i] = m - 1 - i
    count, left = m, 0
    for _ in range(_BIDS * m):
        if count == 0:
            break
        i = waiting[count - 1]
        count -= 1
        row = scores[i]
        first = -np.inf
        for j in range(n):
            v = row[j] - w[j]
            value[j] = v
            first = v if v > first else first
        for j in range(n, total):
            v = row[n] - w[j]
            value[j] = v
            first = v if v > first else first
        best = 0
        while value[best] != first:
            best += 1
        value[best] = -np.inf
        second = -np.inf
        for j in range(total):
            second = value[j] if value[j] > second else second
        if first > second:
            if total > 1:
                w[best] += first - second
        elif row_of[best] >= 0:
            best = 0
            while value[best] != second:
                best += 1
            if row_of[best] >= 0:  # a tie between held columns moves no dual: leave the row to the search
                left += 1
                continue
        loser = row_of[best]
        row_of[best] = i
        column_of[i] = best
        if loser >= 0:
            column_of[loser] = -1
            waiting[count] = loser
            count += 1
    return left + count


@njit()
def _solve(scores, n, u, w, row_of, column_of, distance, previous, shut, waiting):
    m = scores.shape[0]
    row_of[:] = -1
    column_of[:] = -1
    w[:] = 0.0
    unmatched = _bid(scores, n, w, row_of, column_of, waiting, distance)
    for i in range(m):
        if column_of[i] >= 0:
            u[i] = scores[i, min(column_of[i], n)] - w[column_of[i]]
    if unmatched == 0:
        return
    for i in range(m):
        if column_of[i] < 0:
            u[i] = -np.inf
            for j in range(row_of.shape[0]):
                u[i] = max(u[i], scores[i, min(j, n)] - w[j])
            _augment(scores, n, i, u, w, row_of, column_of, distance, previous, shut)


@njit(nogil=True)
def assign(scores, outliers, columns, u, w):
    """The matching of greatest score and its duals: s_ij <= u_i + w_j, equal on the matching, w >= 0 and 0 on columns left.

    scores (N, m, n), or (N, m, n + 1) with outliers, whose last column is open to every row; there `columns` is n.
    """
    problems, m, width = scores.shape
    n = width - 1 if outliers else width
    total = n + m if outliers else n
    dual, distance, shut = np.empty(total), np.empty(total), np.empty(total)
    row_of, previous = np.empty(total, np.int64), np.empty(total, np.int64)
    column_of, waiting = np.empty(m, np.int64), np.empty(m, np.int64)
    for p in range(problems):
        _solve(scores[p], n, u[p], dual, row_of, column_of, distance, previous, shut, waiting)
        for i in range(m):
            columns[p, i] = min(column_of[i], n)
        for j in range(n):
            w[p, j] = dual[j]
        if outliers:
            # Where every row matches nothing, the columns for that may share a dual; it belongs to the rows.
            u[p] += dual[n:].min()


@njit()
def _sizes(n):
    """The number of columns in each set of columns, a set being the bits of its number."""
    size = np.zeros(1 << n, np.int64)
    for s in range(1, 1 << n):
        size[s] = size[s >> 1] + (s & 1)
    return size


@njit()
def _completions(entries, left, n, size, back):
    """back[i, s]: the sum over ways to match the rows from i on to columns outside s of the products of their entries.

    Each column left over counts with its factor. Only sets that the rows before i can have taken are filled.
    """
    m, width = entries.shape
    for s in range(1 << n):
        weight = 1 + 0 * left[0]
        for j in range(n):
            if not (s >> j) & 1:
                weight *= left[j]
        back[m, s] = weight
    for i in range(m - 1, -1, -1):
        for s in range(1 << n):
            if size[s] > i or (width == n and size[s] != i):
                continue
            value = entries[i, n] * back[i + 1, s] if width > n else 0 * left[0]
            for j in range(n):
                if not (s >> j) & 1:
                    value += entries[i, j] * back[i + 1, s | (1 << j)]
            back[i, s] = value


@njit(nogil=True)
def permanent(entries, left, n, totals, marginals):
    """Permanents and marginals of (N, m, n) or (N, m, n + 1) tables; the last column of the latter is open to all rows."""
    problems, m, width = entries.shape
    size = _sizes(n)
    back = np.empty((m + 1, 1 << n), entries.dtype)
    forward = np.empty((m + 1, 1 << n), entries.dtype)
    for p in range(problems):
        _completions(entries[p], left[p], n, size, back)
        totals[p] = back[0, 0]
        forward[:] = 0
        forward[0, 0] = 1 / totals[p]
        marginals[p] = 0
        for i in range(m):
            for s in range(1 << n):
                f = forward[i, s]
                if f == 0:
                    continue
                for j in range(n):
                    if not (s >> j) & 1:
                        step = f * entries[p, i, j]
                        forward[i + 1, s | (1 << j)] += step
                        marginals[p, i, j] += step * back[i + 1, s | (1 << j)]
                if width > n:
                    step = f * entries[p, i, n]
                    forward[i + 1, s] += step
                    marginals[p, i, n] += step * back[i + 1, s]


@njit(nogil=True)
def sample(entries, left, n, uniforms, columns):
    """Matchings drawn row by row, (N, draws, m), from as many uniform numbers."""
    problems, m, width = entries.shape
    size = _sizes(n)
    back = np.empty((m + 1, 1 << n), entries.dtype)
    for p in range(problems):
        _completions(entries[p], left[p], n, size, back)
        for d in range(uniforms.shape[1]):
            s = 0
            for i in range(m):
                rest = uniforms[p, d, i] * back[i, s]
                for j in range(width):
                    if j < n and (s >> j) & 1:
                        continue
                    after = s | (1 << j) if j < n else s
                    weight = entries[p, i, j] * back[i + 1, after]
                    if weight > 0:  # the last open column takes what rounding leaves over
                        columns[p, d, i] = j
                        rest -= weight
                    if rest < 0:
                        break
                if columns[p, d, i] < n:
                    s |= 1 << columns[p, d, i]
