"""What `make package` runs in an environment that has the wheel and nothing else: a model of data
that is shipped, saved and loaded, without any extra.
"""

import tempfile
from importlib.metadata import version
from pathlib import Path

import manykernels
from manykernels.datasets import load_heart
from manykernels.kernels import on_groups

heart = load_heart()
model = manykernels.MKLClassifier(on_groups(heart.groups), p=1.33).fit(heart.data, heart.target)
assert model.score(heart.data, heart.target) > 0.8, model.result_
assert model.result_.duality_gap < 1e-3, model.result_
with tempfile.TemporaryDirectory() as folder:
    manykernels.save(model, Path(folder, "heart.mk"))
    same = manykernels.load(Path(folder, "heart.mk"))
assert (same.predict(heart.data) == model.predict(heart.data)).all()
assert version("manykernels") == manykernels.__version__
assert "site-packages" in manykernels.__file__, manykernels.__file__
print(f"manykernels {manykernels.__version__} from its wheel: {model.result_}")
