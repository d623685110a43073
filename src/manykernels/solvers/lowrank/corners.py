"""Losses as functions of decision values, through their boxes, with corners rounded off."""

from ..._arrays import namespace


def rounded_corners(problem, width):
    """The loss of every output with its corners rounded off over a width; one with a curve has
    none.
    """
    pairs = zip(problem.boxes, problem.cost, strict=True)
    return [Corner(box, cost, width) if box.curve is None else box.curve for box, cost in pairs]


class Corner:
    """A loss through its box.

    The coefficient of a point at the decision value f is the beta in its box that maximizes ``beta
    (linear - f) - kink |beta| - ridge beta^2 / 2``; a ridge of ``width / cost`` rounds off corners
    over that width.
    """

    def __init__(self, box, cost, width):
        self.box, xp = box, namespace(cost)
        # points without a cost have no coefficient, whatever their ridge
        self.ridge = xp.where(cost > 0.0, box.ridge + width / xp.where(cost > 0.0, cost, 1.0), 1.0)

    def response(self, f):
        """Coefficients at decision values f, and the curvature of the loss there."""
        box, pull, xp = self.box, self.box.linear - f, namespace(f)
        free = xp.sign(pull) * xp.clip(abs(pull) - box.kink, 0.0, None) / self.ridge
        beta = xp.clip(free, box.lower, box.upper)
        bends = (beta == free) & ((box.kink == 0.0) | (beta != 0.0)) & (box.upper > box.lower)
        return beta, xp.where(bends, 1.0 / self.ridge, 0.0)

    def loss(self, f, b):
        """Total loss of the decision values f, of which b is the intercept."""
        beta = self.response(f)[0]
        losses = beta * (self.box.linear - f) - self.box.kink * abs(beta)
        losses -= 0.5 * self.ridge * beta**2
        return float(losses.sum()) + self.box.total * float(b)
