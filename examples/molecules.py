"""Which description of a molecule matters: rings of atoms, fragments, keys, or its text?

python examples/molecules.py [TABLE.csv SMILES_COLUMN TARGET_COLUMN]

Needs RDKit (``pip install rdkit``) and says so where it is not there. Without a table, some
alcohols, acids, amines and rings made on the spot, and how many heavy atoms they have less twice
their oxygens.
"""

import csv
import sys

import numpy as np
import pandas as pd

from manykernels import MKLRegressor
from manykernels.kernels import MinMax, Spectrum, Tanimoto, on_groups


def some_molecules():
    """SMILES and a number for each."""
    ends = ["", "O", "N", "C(=O)O", "C#N", "Cl", "c1ccccc1", "C1CCCCC1", "OC", "N(C)C"]
    smiles = [
        f"{end}{'C' * length}{other}" if not end.endswith(("1", ")O")) else f"{'C' * length}{end}"
        for length in range(1, 9)
        for end in ("O", "N", "Cl", "C")
        for other in ends
    ]
    smiles = list(dict.fromkeys(smiles))
    target = [sum(one.count(atom) for atom in "CcNl") - 2 * one.count("O") for one in smiles]
    return smiles, np.array(target, dtype=float)


def read(path, smiles, target):
    """SMILES and a number for each, of a table."""
    with open(path, newline="", encoding="utf-8") as lines:
        rows = [row for row in csv.DictReader(lines) if row[target] not in ("", "nan")]
    return [row[smiles] for row in rows], np.array([float(row[target]) for row in rows])


def views(smiles):
    """A data frame with the columns of all views, and the columns of each."""
    from rdkit import Chem
    from rdkit.Chem import Descriptors, MACCSkeys
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    molecules = [Chem.MolFromSmiles(one) for one in smiles]
    parts = {
        f"Morgan {radius}": [
            GetMorganGenerator(radius=radius, fpSize=2048).GetFingerprintAsNumPy(one)
            for one in molecules
        ]
        for radius in (1, 2, 3)
    }
    fragments = [count for name, count in Descriptors.descList if name.startswith("fr_")]
    parts["fragments"] = [[count(one) for count in fragments] for one in molecules]
    parts["MACCS"] = [list(MACCSkeys.GenMACCSKeys(one)) for one in molecules]
    frames = [pd.DataFrame(np.array(part)).add_prefix(f"{view} ") for view, part in parts.items()]
    columns = {view: list(frame) for view, frame in zip(parts, frames, strict=True)}
    text = pd.DataFrame({"text": smiles})
    return pd.concat([*frames, text], axis=1), columns | {"text": ["text"]}


def main(*table):
    try:
        import rdkit  # noqa: F401
    except ImportError:
        print("This example makes fingerprints with RDKit: pip install rdkit")
        return
    smiles, target = read(*table) if table else some_molecules()
    X, columns = views(smiles)
    own = {view: Tanimoto() for view in columns} | {"fragments": MinMax(), "text": Spectrum(3)}
    kernels = on_groups(columns, own)
    order = np.random.default_rng(0).permutation(len(target))
    train, test = order[: int(0.8 * len(order))], order[int(0.8 * len(order)) :]
    model = MKLRegressor(kernels, C=10.0 * target.std()).fit(X.iloc[train], target[train])
    score = model.score(X.iloc[test], target[test])
    print(f"{len(target):,} molecules, R² of a fifth of them {score:.3f}")
    for view, weight in sorted(model.group_weights_.items(), key=lambda one: -one[1]):
        print(f"{weight:8.3f}  {view}")


if __name__ == "__main__":
    main(*sys.argv[1:])
