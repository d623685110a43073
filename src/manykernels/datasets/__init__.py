"""Small real data sets, to try things on without a network.

Each loader gives a `Bunch` as those of scikit-learn do, and besides ``groups``: which columns
belong together, for `on_groups`. The sets are from the UCI Machine Learning Repository, under the
Creative Commons Attribution 4.0 license; ``DESCR`` says who made them and what was done to them.
"""

from .loaders import load_heart, load_house_votes, load_multiple_features, load_sonar

__all__ = ["load_heart", "load_house_votes", "load_multiple_features", "load_sonar"]
