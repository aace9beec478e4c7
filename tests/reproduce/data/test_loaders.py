"""What holds for every loader, and what is known about each set. Skips where the data are absent."""

from __future__ import annotations

import numpy as np
import pytest
from reproduce.data._catalogue import CATALOGUE
from scipy.sparse import issparse

from reproduce import data

CLASSIFICATION = {"codrna": [-1, 1], "elec2": [0, 1], "cora": list(range(7))}


@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_common_contract(load, loaders, name):
    few = {"n_rows": 2075} if name == "household" else {}
    bunch = load(loaders[name], **few)
    n, p, d = CATALOGUE[name].shape
    n = few.get("n_rows", n)
    assert bunch.data.shape == (n, p)
    assert bunch.data.dtype == np.float64
    values = bunch.data.data if issparse(bunch.data) else bunch.data
    assert np.isfinite(values).all()
    if name in CLASSIFICATION:
        assert bunch.target.shape == (n,)
        assert np.unique(bunch.target).tolist() == CLASSIFICATION[name]
        assert len(bunch.target_names) == len(CLASSIFICATION[name])
    else:
        assert bunch.target.shape == (n, d)
        assert bunch.target.dtype == np.float64
        assert len(bunch.target_names) == d
    assert len(bunch.feature_names) == p
    assert len(set(bunch.feature_names)) == p
    assert len(set(bunch.target_names)) == len(bunch.target_names)
    assert CATALOGUE[name].citation in bunch.DESCR
    for field in ("adjacency", "signs"):
        assert field not in bunch or issparse(bunch[field])

    X, y = load(loaders[name], return_X_y=True, **few)
    assert type(X) is type(bunch.data)
    np.testing.assert_array_equal(y, bunch.target)


def test_loaded_arrays_are_fresh(load):
    first = load(data.load_gait)
    first.data[:] = 0
    assert load(data.load_gait).data.any()


def test_wine(load):
    wine = load(data.load_wine)
    assert wine.feature_names[0] == "fixed acidity"
    assert wine.feature_names[-1] == "alcohol"
    assert wine.target_names == ["quality"]
    np.testing.assert_array_equal(wine.data[0, :4], [7, 0.27, 0.36, 20.7])
    assert np.bincount(wine.target[:, 0].astype(int))[3:].tolist() == [20, 163, 1457, 2198, 880, 175, 5]
    two = load(data.load_wine, targets=("quality", "alcohol"))
    assert "alcohol" not in two.feature_names
    np.testing.assert_array_equal(two.target[:, 1], wine.data[:, -1])
    np.testing.assert_array_equal(load(data.load_wine, targets="quality").target, wine.target)


@pytest.mark.parametrize("targets", [(), ("grade",), ("quality", "quality")])
def test_wine_refuses_targets(load, targets):
    load(data.load_wine)
    with pytest.raises(ValueError, match="targets must be some"):
        data.load_wine(targets=targets)


def test_parkinsons(load):
    patients = load(data.load_parkinsons)
    assert patients.feature_names[:3] == ["age", "sex", "test_time"]
    assert patients.feature_names[-1] == "PPE"
    assert np.unique(patients.groups).tolist() == list(range(1, 43))
    np.testing.assert_array_equal(patients.target[0], [28.199, 34.398])
    assert patients.data[0, 4] == 3.38e-5


def test_codrna(load):
    rna = load(data.load_codrna)
    assert (rna.target == 1).sum() == 19845
    np.testing.assert_array_equal(rna.data[0, :3], [-766, 128, 0.140625])


def test_elec2(load):
    market = load(data.load_elec2)
    assert market.target[:3].tolist() == [1, 1, 1]
    assert market.target.sum() == 19237
    assert market.data.min() == 0
    assert market.data.max() == 1
    np.testing.assert_allclose(market.data[:3, 0] * 47, [0, 1, 2], atol=1e-4)


def test_canadian_weather(load):
    weather = load(data.load_canadian_weather)
    assert weather.place[0] == "St. Johns"
    assert sorted(set(weather.region)) == ["Arctic", "Atlantic", "Continental", "Pacific"]
    assert weather.data[0, :3].tolist() == [-3.6, -3.1, -3.4]
    positive = np.where(weather.precipitation == 0, 0.05, weather.precipitation)
    np.testing.assert_allclose(np.log10(positive), weather.target, atol=1e-12)
    assert (weather.precipitation == 0).sum() == 27
    assert weather.grid[[0, -1]].tolist() == [1, 365]
    assert weather.coordinates.shape == (35, 2)


def test_gait(load):
    gait = load(data.load_gait)
    assert gait.data[0, :3].tolist() == [37, 36, 33]
    assert gait.target[0, 0] == 10
    np.testing.assert_allclose(np.diff(gait.grid), 0.05)


def test_pharma(load):
    drugs = load(data.load_pharma)
    assert "Hormones, Hormone Substitutes, and Hormone Antagonists" in drugs.target_names
    assert set(np.unique(drugs.data)) == set(np.unique(drugs.target)) == {0, 1}
    assert drugs.target.sum(axis=1).min() == 1
    assert drugs.target.sum(axis=1).max() == 16
    assert drugs.compounds[:2].tolist() == [23994, 5359371]
    np.testing.assert_array_equal(np.diag(drugs.tanimoto), 1)
    a, b = drugs.data[3] > 0, drugs.data[70] > 0
    assert drugs.tanimoto[3, 70] == pytest.approx((a & b).sum() / (a | b).sum())
    assert np.linalg.eigvalsh(drugs.tanimoto[:200, :200]).min() > -1e-10
    assert drugs.constraints.max() == 0
    known = drugs.constraints < 0
    assert np.corrcoef(drugs.constraints[known], drugs.tanimoto[known])[0, 1] < -0.99


def test_california_gps(load):
    ground = load(data.load_california_gps)
    assert ground.target_names == ["velocity_east", "velocity_north"]
    np.testing.assert_array_equal(ground.target[0], [-0.01573, 0.01648])
    np.testing.assert_array_equal(ground.target_std[0], [0.00037, 0.0002])
    assert 235 < ground.data[:, 0].min() < ground.data[:, 0].max() < 245
    assert (ground.target_std > 0).all()
    solid = load(data.load_california_gps, vertical=True)
    assert solid.data.shape == solid.target.shape == solid.target_std.shape == (2458, 3)
    np.testing.assert_array_equal(solid.target[:, :2], ground.target)
    assert solid.feature_names[2] == "height"


def test_glad(load):
    currents = load(data.load_glad)
    np.testing.assert_array_equal(
        currents.data_test, np.column_stack([currents.grid_x.ravel(), currents.grid_y.ravel()])
    )
    assert currents.data_test.shape == (1600, 2)
    # Units: a drifter moves by its mean velocity in m/s times 10.8 km/(m/s) in three hours.
    steps, velocities = np.diff(currents.data, axis=0), (currents.target[1:] + currents.target[:-1]) / 2
    assert np.median(np.abs(steps - 10.8 * velocities)) < 0.5


def test_jura(load):
    soil = load(data.load_jura)
    assert soil.target_names == ["Cd", "Co", "Cr", "Cu", "Ni", "Pb", "Zn"]
    np.testing.assert_array_equal(soil.target[0], [1.74, 9.32, 38.32, 25.72, 21.32, 77.36, 92.56])
    assert soil.data_validation.shape == soil.coordinates_validation.shape == (100, 2)
    assert soil.target_validation.shape == (100, 7)
    assert set(soil.landuse) == {"Forest", "Pasture", "Meadow", "Tillage"}
    assert set(soil.rock) == {"Argovian", "Kimmeridgian", "Sequanian", "Portlandian", "Quaternary"}
    assert soil.landuse.shape == soil.rock.shape == (259,)
    assert soil.rock_validation.shape == soil.landuse_validation.shape == (100,)
    assert soil.target.mean(axis=0)[0] == pytest.approx(1.309077, abs=1e-6)
    mulan = load(data.load_mtr, "jura")
    np.testing.assert_array_equal(mulan.data[:259, :2], soil.data)
    np.testing.assert_array_equal(mulan.target[:259], soil.target[:, [0, 1, 3]])
