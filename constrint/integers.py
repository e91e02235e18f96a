"""Exact integer arithmetic: roots, divisors and intervals."""

from __future__ import annotations

from functools import lru_cache
from math import gcd, isqrt

Interval = tuple[int, int]

# Deterministic witnesses of the Miller-Rabin test below 3.3e24 (Sorenson and Webster, 2015).
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)

# Larger numbers are not factored: Pollard's rho would take seconds, and no limit stops it.
FACTORED_BITS = 64


def root_floor(n: int, exponent: int) -> int:
    """The largest r with `r ** exponent <= n`, for n >= 0."""
    if exponent == 1:
        return n
    if exponent == 2:
        return isqrt(n)
    if n < 2:
        return n
    root = 1 << -(-n.bit_length() // exponent)
    while True:
        smaller = ((exponent - 1) * root + n // root ** (exponent - 1)) // exponent
        if smaller >= root:
            return root
        root = smaller


def root_ceil(n: int, exponent: int) -> int:
    """The smallest r >= 0 with `r ** exponent >= n`."""
    if n <= 0:
        return 0
    root = root_floor(n, exponent)
    return root if root**exponent == n else root + 1


def _is_prime(n: int) -> bool:
    for p in _WITNESSES:
        if n % p == 0:
            return n == p
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for witness in _WITNESSES:
        x = pow(witness, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def _proper_factor(n: int) -> int:
    """A factor of a composite n without small factors: Pollard's rho, with fixed seeds."""
    root = isqrt(n)
    if root * root == n:
        return root
    for seed in range(1, n):
        slow = fast = 2
        while True:
            slow = (slow * slow + seed) % n
            fast = (fast * fast + seed) % n
            fast = (fast * fast + seed) % n
            factor = gcd(slow - fast, n)
            if factor != 1:
                break
        if factor != n:
            return factor
    raise AssertionError("a composite number has a factor")  # pragma: no cover


def _factor(n: int) -> dict[int, int]:
    powers: dict[int, int] = {}
    for p in range(2, 200):
        while n % p == 0:
            powers[p] = powers.get(p, 0) + 1
            n //= p
    rest = [n] if n > 1 else []
    while rest:
        n = rest.pop()
        if n < 200 * 200 or _is_prime(n):
            powers[n] = powers.get(n, 0) + 1
        else:
            factor = _proper_factor(n)
            rest += [factor, n // factor]
    return powers


@lru_cache(maxsize=4096)
def divisors(n: int) -> tuple[int, ...]:
    """All positive divisors of n > 0, ascending."""
    found = [1]
    for p, power in _factor(n).items():
        found = [d * p**k for d in found for k in range(power + 1)]
    return tuple(sorted(found))


def product(a: Interval, b: Interval) -> Interval:
    """The interval of x * y for x in a and y in b."""
    if a[0] >= 0 and b[0] >= 0:
        return a[0] * b[0], a[1] * b[1]
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(corners), max(corners)


def quotient(a: Interval, b: Interval) -> Interval:
    """The interval of x // y for x in a and y in b, which has no 0."""
    corners = (a[0] // b[0], a[0] // b[1], a[1] // b[0], a[1] // b[1])
    return min(corners), max(corners)


def remainder(a: Interval, b: Interval) -> Interval:
    """An interval that contains x % y for x in a and y in b, which has no 0."""
    if b[0] < 0:
        low, high = remainder((-a[1], -a[0]), (-b[1], -b[0]))
        return -high, -low
    if a[0] >= 0:
        return (a[0], a[1]) if a[1] < b[0] else (0, min(a[1], b[1] - 1))
    return 0, b[1] - 1


def power(base: Interval, exponent: Interval) -> Interval:
    """An interval that contains x ** y for x in base and y >= 0 in exponent."""
    if base[0] >= 1:
        return base[0] ** exponent[0], base[1] ** exponent[1]
    if exponent[0] == exponent[1]:
        low, high = base[0] ** exponent[0], base[1] ** exponent[0]
        if exponent[0] % 2 == 0 and exponent[0] and base[0] < 0:
            return (0 if base[1] >= 0 else high), max(low, high)
        return low, high
    # 0 ** 0 is 1, so an exponent that may be 0 adds 1 to the interval.
    top = max(abs(base[0]), abs(base[1]), 1) ** exponent[1]
    return (0 if base[0] >= 0 else -top), top


def factor_of(target: Interval, other: Interval) -> Interval | None:
    """An interval of all y with `y * r` in target for some r in other; None if y is unbounded."""
    low, high = target
    r_low, r_high = other
    if r_low <= 0 <= r_high:
        if low <= 0 <= high:
            return None
        if r_low == r_high:
            return 1, 0
        if r_low < 0 < r_high:
            reach = max(abs(low), abs(high))
            return -reach, reach
        # The product is not 0, so r is not 0 either.
        r_low, r_high = (1, r_high) if r_low == 0 else (r_low, -1)
    if r_high < 0:
        low, high, r_low, r_high = -high, -low, -r_high, -r_low
    return (
        -(-low // r_low) if low <= 0 else -(-low // r_high),
        high // r_low if high >= 0 else high // r_high,
    )


def base_of(target: Interval, exponent: int) -> Interval:
    """The interval of all x with `x ** exponent` in target; empty (low > high) if there is none."""
    low, high = target
    if exponent == 1:
        return target
    if exponent % 2 == 0:
        if high < 0:
            return 1, 0
        reach = root_floor(high, exponent)
        return -reach, reach
    return (
        root_ceil(low, exponent) if low > 0 else -root_floor(-low, exponent),
        root_floor(high, exponent) if high >= 0 else -root_ceil(-high, exponent),
    )
