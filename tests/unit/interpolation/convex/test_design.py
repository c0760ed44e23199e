import numpy as np
import pytest
from scipy import sparse

from holdfast.interpolation.convex import problem as linear_design
from holdfast.interpolation.convex.problem import Design, scale_rows
from holdfast.rows.kinds import as_dense
from holdfast.rows.mapped import TransformedRows


@pytest.fixture
def X():
    """Return 50 rows of 3 columns, one of them far from zero."""
    return np.random.default_rng(0).normal(size=(50, 3)) + np.array([0.0, 1e6, 0.0])


def test_forward_and_transposed_are_products_with_the_shifted_matrix(X, monkeypatch):
    """Blocks change nothing, and a column far from zero is shifted."""
    monkeypatch.setattr(linear_design, "BLOCK_NUMBERS", 3 * 64)
    long = np.vstack([X, X, X])
    design = Design(long)
    assert len(list(design.blocks())) == 3
    assert design.shift is not None
    matrix = np.hstack([long - design.shift, np.ones((150, 1))])
    coefficients = np.arange(8.0).reshape(4, 2)
    outputs = np.random.default_rng(1).normal(size=(150, 2))
    np.testing.assert_allclose(design.forward(coefficients), matrix @ coefficients, atol=1e-9)
    np.testing.assert_allclose(design.transposed(outputs), matrix.T @ outputs, atol=1e-9)


def test_coefficients_go_to_the_original_columns(X):
    """Only the intercept moves with the shift."""
    design = Design(X)
    coefficients = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0], [7.0, 8.0]])
    coef, intercept = design.to_original(coefficients)
    np.testing.assert_array_equal(coef, coefficients[:3].T)
    np.testing.assert_allclose(X @ coef.T + intercept, design.forward(coefficients), atol=1e-8)


def test_columns_near_zero_are_read_as_they_are():
    """Without need for a shift the blocks are views of X."""
    X = np.random.default_rng(0).normal(size=(50, 3))
    design = Design(X)
    assert design.shift is None
    assert all(np.shares_memory(block, X) for _, block in design.blocks())


def test_without_an_intercept_nothing_is_shifted(X):
    """A shift needs an intercept to absorb it."""
    design = Design(X, fit_intercept=False)
    assert design.shift is None
    assert design.n_columns == 3
    np.testing.assert_allclose(design.forward(np.ones((3, 1)))[:, 0], X.sum(axis=1))


def test_sparse_rows_give_the_same_products():
    """A CSR matrix is one block and is never made dense."""
    matrix = sparse.random(40, 6, density=0.3, random_state=0, format="csr")
    design, plain = Design(matrix), Design(matrix.toarray())
    coefficients, outputs = np.arange(7.0)[:, None], np.arange(40.0)[:, None]
    assert [sparse.issparse(block) for _, block in design.blocks()] == [True]
    np.testing.assert_allclose(design.forward(coefficients), plain.forward(coefficients))
    np.testing.assert_allclose(design.transposed(outputs), plain.transposed(outputs))


def test_a_transform_is_applied_to_every_block(X):
    """Fitted transformers of a pipeline see the rows block by block."""
    design = Design(TransformedRows(X, lambda block: block[:, :2] * 2.0))
    assert design.n_features == 2
    coef, intercept = design.to_original(np.array([[1.0], [1.0], [0.0]]))
    np.testing.assert_allclose(
        design.forward(np.array([[1.0], [1.0], [0.0]]))[:, 0], 2 * X[:, :2] @ coef[0] + intercept[0], atol=1e-8
    )


def test_a_sample_keeps_the_coordinates(X):
    """Some rows, same shift: coefficients can be carried over."""
    design, rows = Design(X), np.array([3, 10, 49])
    coefficients = np.array([[1.0], [2.0], [3.0], [4.0]])
    np.testing.assert_allclose(design.sample(rows).forward(coefficients), design.forward(coefficients)[rows])


def test_scale_rows_keeps_the_kind():
    """Dense stays dense, sparse stays sparse."""
    matrix, weights = np.arange(6.0).reshape(3, 2), np.array([1.0, 0.0, -2.0])
    expected = [[0.0, 1.0], [0.0, 0.0], [-8.0, -10.0]]
    assert scale_rows(matrix, weights).tolist() == expected
    scaled = scale_rows(sparse.csr_matrix(matrix), weights)
    assert sparse.issparse(scaled)
    assert as_dense(scaled).tolist() == expected


def test_spread_and_size_of_rows_are_known(X):
    """Of few rows all are looked at; a sparse row is as large as what it holds."""
    np.testing.assert_array_equal(Design(X).spread, X.std(axis=0))
    assert Design(X).row_size == 3.0
    assert Design(sparse.csr_matrix(np.eye(4)[:, [0, 0, 0, 1]])).row_size == 1.0
    assert Design(sparse.csr_matrix(np.ones((4, 6)))).row_size == 6.0
