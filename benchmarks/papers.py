"""Figures that the papers printed, by paper and table; seconds unless it says hours.

Nothing here was measured by us. A dash of a paper (no convergence) is None.
"""

from typing import NamedTuple


class Paper(NamedTuple):
    """Where printed figures come from."""

    short: str
    citation: str
    year: int
    machine: str


SPG = Paper(
    "SPG-GMKL",
    "Jain, Vishwanathan and Varma, SPG-GMKL: generalized multiple kernel learning with a million "
    "kernels, KDD 2012",
    2012,
    "one core of an AMD 6172 at 2.1 GHz, 48 GB",
)
SMO = Paper(
    "SMO-MKL",
    "Vishwanathan, Sun, Theera-Ampornpunt and Varma, Multiple kernel learning and the SMO "
    "algorithm, NIPS 2010",
    2010,
    "one core of an AMD 2380 at 2.5 GHz, 32 GB",
)
MKLGL = Paper(
    "MKLGL",
    "Xu, Jin, Yang, King and Lyu, Simple and efficient multiple kernel learning by group lasso, "
    "ICML 2010",
    2010,
    "no machine is named",
)
MWU = Paper(
    "MWUMKL",
    "Moeller, Raman, Saha and Venkatasubramanian, A geometric algorithm for scalable multiple "
    "kernel learning, AISTATS 2014",
    2014,
    "an Intel Core 2 Quad at 2.4 GHz, 2 GB",
)
LOWRANK = Paper(
    "low-rank lp-MKL",
    "Rakotomamonjy and Chanda, lp-norm multiple kernel learning with low-rank kernels, "
    "Neurocomputing 2014",
    2014,
    "one core of an Intel Xeon E5530 at 2.4 GHz, 24 GB; Matlab",
)

# table 2: p = 1.1, 1.33, 2: seconds of PGD and of SPG-GMKL
SPG_TABLE_2 = {
    "australian": {1.1: (39.4, 7.0), 1.33: (248.3, 6.9), 2.0: (23.5, 6.0)},
    "liver": {1.1: (282.2, 0.8), 1.33: (3.3, 0.7), 2.0: (0.7, 0.6)},
    "sonar": {1.1: (785.5, 9.0), 1.33: (57.8, 4.2), 2.0: (7.7, 3.1)},
    "breast_cancer": {1.1: (237.2, 8.6), 1.33: (11.2, 3.3), 2.0: (6.6, 2.7)},
    "diabetes": {1.1: (73.6, 4.1), 1.33: (11.5, 3.0), 2.0: (3.6, 2.5)},
    "wpbc": {1.1: (44.4, 1.2), 1.33: (5.3, 1.3), 2.0: (1.7, 1.2)},
}
# table 4: SimpleMKL, SILP-MKL, PGD, SPG-GMKL
SPG_TABLE_4 = {
    "wpbc": (400.2, 15.5, 38.2, 6.2),
    "breast_cancer": (676.1, 12.3, 57.9, 5.1),
    "australian": (383.2, 1094.9, 29.5, 10.1),
    "ionosphere": (1247.6, 107.8, 1392.4, 39.2),
    "sonar": (1468.2, 935.1, None, 273.4),
}
# tables 3 and 6, hours of PGD and of SPG-GMKL
SPG_TABLE_3 = {
    "a9a": (31.77, 4.42),
    "cod_rna": (66.48, 19.10),
    "KDDCup04": (None, 42.20),
    "covtype": (None, 64.46),
    "sonar, 10^6 kernels": (None, 105.62),
}
SPG_TABLE_6 = {
    "a9a": (35.84, 4.55),
    "cod_rna": (None, 25.17),
    "KDDCup04": (None, 40.10),
    "Real-Sim": (None, 45.94),
}
# table 7: seconds and SVMs of PGD, PGD+N, PGD+S, PGD+N+S
SPG_TABLE_7 = {
    "australian": ((39.4, 3230), (32.7, 116), (317.0, 5980), (7.0, 621)),
    "sonar": ((785.5, 209461), (41.6, 3236), (40.2, 3806), (9.0, 2457)),
    "breast_cancer": ((237.2, 109599), (42.2, 1187), (14.9, 3537), (8.6, 3006)),
    "diabetes": ((73.6, 29347), (26.3, 2966), (10.5, 1239), (4.1, 695)),
    "wpbc": ((44.4, 14376), (27.9, 9388), (2.9, 340), (1.2, 79)),
    "a9a, 1605 rows": ((376, 196), (356, 196), (104, 118), (71, 50)),
    "a9a, 2265 rows": ((547, 238), (549, 238), (207, 115), (143, 70)),
}
# tables 5 (p = 1.1, 1.33, 2) and 9 (p = 1): seconds of PGD and of SPG-GMKL
SPG_TABLES_5_9 = {
    "australian": {1.0: (None, 16.6), 1.1: (None, 22.0), 1.33: (None, 22.1), 2.0: (None, 21.6)},
    "liver": {1.0: (1482.6, 2.6), 1.1: (722.4, 1.0), 1.33: (136.1, 0.6), 2.0: (0.3, 0.4)},
    "sonar": {1.0: (None, 4.8), 1.1: (None, 7.4), 1.33: (None, 3.2), 2.0: (293.8, 3.1)},
    "breast_cancer": {1.0: (1182.6, 4.4), 1.1: (28.4, 4.0), 1.33: (448.6, 3.3), 2.0: (377.8, 3.2)},
    "diabetes": {1.0: (1525.7, 7.6), 1.1: (1232.5, 4.8), 1.33: (364.4, 2.5), 2.0: (2.1, 2.1)},
    "wpbc": {1.0: (1093.9, 2.7), 1.1: (1080.3, 4.4), 1.33: (1064.7, 3.7), 2.0: (209.3, 2.1)},
    "leukemia": {1.0: (2961.5, 850.0)},
}
# tables 8 (p = 1.33) and 10 (p = 1): hours of PGD and of SPG-GMKL
SPG_TABLES_8_10 = {
    "letter": {1.33: (18.89, 0.66), 1.0: (18.66, 0.67)},
    "poker": {1.33: (2.29, 0.96), 1.0: (5.57, 0.49)},
    "a8a": {1.33: (None, 3.42), 1.0: (None, 1.73)},
    "w7a": {1.33: (None, 1.33), 1.0: (None, 0.88)},
    "RCV1": {1.33: (None, 15.93), 1.0: (None, 18.17)},
    "cod_rna": {1.33: (None, 8.99), 1.0: (None, 3.45)},
}
# table 11: hours of PGD, PGD+N+S, SPG-GMKL
SPG_TABLE_11 = {
    "a9a": (31.77, 8.33, 4.43),
    "w8a": (4.27, 1.73, 0.87),
    "sonar": (53.91, 3.35, 2.19),  # with 10^5 kernels
}
SPG_FIGURE_2 = {"a9a": 1.98, "w8a": 1.52}  # exponents in the number of points

# table 1: seconds of SMO-MKL and of Shogun, accuracy and kernels of SMO-MKL, by p
SMO_TABLE_1 = {
    "australian": {
        1.1: (4.89, 58.52, 85.22, 26.4),
        1.33: (4.16, 33.58, 85.36, 40.8),
        1.66: (4.31, 31.89, 85.65, 72.2),
        2.0: (4.27, 27.08, 85.80, 126.4),
        2.33: (4.88, 24.92, 85.80, 162.8),
        2.66: (5.19, 26.90, 85.80, 188.2),
        3.0: (5.48, 27.06, 85.51, 192.0),
    },
    "ionosphere": {
        1.1: (2.85, 19.82, 92.60, 50.0),
        1.33: (2.78, 8.49, 92.03, 120.8),
        1.66: (2.42, 10.49, 91.74, 200.8),
        2.0: (2.16, 13.99, 92.03, 328.0),
        2.33: (2.35, 24.90, 92.03, 413.6),
        2.66: (2.50, 33.05, 92.03, 430.6),
        3.0: (3.03, 36.23, 92.31, 434.4),
    },
    "liver": {
        1.1: (0.53, 2.15, 62.90, 9.40),
        1.33: (0.54, 0.92, 66.09, 24.40),
        1.66: (0.56, 1.14, 66.96, 44.20),
        2.0: (0.54, 1.72, 66.96, 71.00),
        2.33: (0.63, 2.35, 66.38, 82.40),
        2.66: (0.65, 2.53, 65.22, 83.20),
        3.0: (0.67, 3.40, 65.22, 85.20),
    },
    "sonar": {
        1.1: (4.95, 47.19, 85.15, 91.2),
        1.33: (4.00, 18.28, 84.65, 247.8),
        1.66: (4.48, 20.27, 88.47, 383.0),
        2.0: (3.31, 31.52, 88.94, 661.2),
        2.33: (3.54, 51.83, 88.94, 770.8),
        2.66: (3.83, 64.59, 88.94, 782.0),
        3.0: (3.96, 70.08, 88.94, 786.0),
    },
}
# the text beside figure 1: seconds for all points, by set and p
SMO_FIGURE_1 = {
    "a9a": {1.33: 9245.80, 2.0: 8511.12},
    "w8a": {1.33: 1574.73, 2.0: 2023.35},
}

# table 1: accuracy, seconds and SVMs of SimpleMKL and of MKLGL
MKLGL_TABLE_1 = {
    "ionosphere": {"simple": (91.5, 79.9, 826.8), "group_lasso": (92.0, 12.0, 72.1)},
    "breast_cancer": {"simple": (96.5, 110.5, 542.0), "group_lasso": (96.6, 14.1, 40.0)},
    "sonar": {"simple": (82.0, 57.0, 687.6), "group_lasso": (82.0, 5.7, 53.6)},
    "diabetes": {"simple": (73.4, 94.5, 294.3), "group_lasso": (73.5, 15.1, 15.1)},
}
# tables 2 (simulated) and 3: accuracy by p; the sum of kernels under "mean"
MKLGL_TABLES_2_3 = {
    "simulated": {
        "mean": 80.4,
        1: 83.4,
        2: 89.7,
        3: 91.1,
        4: 91.4,
        10: 92.2,
        100: 92.6,
        1000: 92.8,
    },
    "bci": {"mean": 52.9, 1: 55.1, 2: 66.4, 3: 68.0, 4: 68.6, 10: 69.4, 100: 70.0, 1000: 70.1},
    "usps": {"mean": 80.5, 1: 87.2, 2: 90.2, 3: 91.8, 4: 92.3, 10: 93.3, 100: 93.7, 1000: 93.7},
    "coil2": {"mean": 78.1, 1: 84.8, 2: 88.9, 3: 90.8, 4: 91.6, 10: 93.2, 100: 94.2, 1000: 94.3},
}

# table 2: what it says
MWU_TABLE_2 = {"a9a": "13 minutes", "cod_rna": "147 seconds", "sonar": "3.65 hours (10^6 kernels)"}
