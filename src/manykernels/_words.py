"""Numbers and outcomes in plain words."""

import math


def percent(share):
    """A share with as many digits as a person reads: 34.8 %, 0.021 %, < 0.0001 %."""
    value = 100.0 * share
    if value == 0.0 or not math.isfinite(value):
        return "0 %" if value == 0.0 else "–"
    if abs(value) < 1e-4:
        return "< 0.0001 %"
    if abs(value) >= 0.1:
        return "100 %" if value == 100.0 else f"{value:.1f} %"
    return f"{value:.{1 - math.floor(math.log10(abs(value)))}f}".rstrip("0") + " %"


def number(value, digits=4):
    """A number with a few significant digits; thousands are separated, infinity is a sign."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if math.isnan(value) or math.isinf(value):
        return "–" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.1f}"
    return f"{value:.{digits}g}"


def thousandths(value):
    """A number with three digits after the point, and no sign before a zero."""
    return f"{round(value, 3) + 0.0:.3f}"


def gap_in_words(gap):
    """A relative duality gap, or that there is none."""
    return f"relative gap {gap:.2g}" if math.isfinite(gap) else "no bound on the gap"


def seconds(value):
    """A time with its unit."""
    if value < 1.0:
        return f"{1000 * value:.0f} ms"
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.1f} min"


def megabytes(count):
    """A number of bytes with its unit."""
    return f"{count / 2**20:,.0f} MB" if count < 10 * 2**30 else f"{count / 2**30:,.1f} GB"


def count(n, noun):
    """``1 kernel``, ``1,000 kernels``; the noun makes its plural with s (class: es)."""
    return f"{n:,} {noun if n == 1 else noun + ('es' if noun.endswith('s') else 's')}"


def certified(result):
    """What the certificate of a result proves, as sentences."""
    gap, certificate = result.duality_gap, result.certificate
    if math.isfinite(gap):
        return (
            f"The objective is {number(certificate.primal, 6)}, and no kernel weights and no "
            "coefficients can bring it below "
            f"{number(certificate.dual, 6)}: at most {percent(max(gap, 1e-6))} of it is left to "
            "gain. "
            "That is the relative duality gap: proven, up to rounding, not estimated."
        )
    unproven = (
        "This formulation has no duality gap, so nothing is proven about the distance to the best "
        "possible objective."
    )
    if not result.status.converged:
        return unproven
    return (
        f"{unproven} The solver stopped where it found no way down; from another start it may end "
        "elsewhere."
    )
