"""All errors and warnings of the package.

HoldfastError
├── InputError (ValueError)            what the caller handed over does not fit
│   ├── EnvironmentsError              environment labels
│   ├── LabelsError                    class labels or targets
│   ├── FeaturesError                  rows and columns of X
│   ├── ParameterError                 a constructor or function parameter
│   ├── TableError                     a CSV or Parquet file, or its columns
│   ├── DatasetError                   a data set's files: missing, truncated, of another format
│   │   └── AbsentFilesError           they are not there
│   └── ConfigError                    an experiment's TOML
├── InputTypeError (TypeError)         of a type nobody can use here
├── MissingExtraError (ImportError)    a package of an optional extra is not installed
├── DivergedError (ValueError)         a risk became NaN or infinite during training
├── SavedModelError (ValueError)       a saved model, checkpoint or record
│   ├── CorruptFileError               its bytes are not those that were written
│   └── UntrustedFileError             it holds what we refuse to load
├── StorageError (OSError)             writing failed: full disk, read-only folder
├── ClusterError (RuntimeError)        fits on other machines were lost, or rows do not fit there
└── PluginError (ImportError)          an entry point of an installed package that cannot be used

HoldfastWarning (UserWarning)
├── SingleEnvironmentWarning           nothing to compare: plain ERM
├── ConstantJudgeWarning               a judge predicts one class only: its halves are label groups
├── EmptyPartitionWarning              nobody mistaken (alpha = 1): the half is dropped
├── AllMistakenWarning                 everybody mistaken (alpha = 0): the environments themselves interpolate
├── EmptyColumnWarning                 a column without any value in some environment
├── SingleClassEnvironmentWarning      an environment with one class only
├── UnseenLabelWarning                 a label that some environment never shows
├── SmallGroupWarning                  a half or environment below the minimum size
├── IdenticalEnvironmentsWarning       no evidence that anything changes between the environments
├── PrevalenceWarning                  label frequencies differ much between environments
├── CollapseWarning                    the trained classifier predicts one class only
├── SolverWarning                      a solver stopped before its certificate was reached
├── NewSiteWarning                     rows do not fit what the classifier was fitted on
└── MismatchWarning                    saved under another version, CPU type, number of threads or precision
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches


class HoldfastError(Exception):
    """Every error that holdfast raises on purpose."""


class InputError(HoldfastError, ValueError):
    """What the caller handed over does not fit."""


class EnvironmentsError(InputError):
    """Environment labels that cannot be used."""


class LabelsError(InputError):
    """Class labels or targets that cannot be used."""


class FeaturesError(InputError):
    """Rows or columns of X that cannot be used."""


class ParameterError(InputError):
    """A parameter outside the values it may take."""


class TableError(InputError):
    """A table file, or a column of it, that cannot be used."""


class DatasetError(InputError):
    """Files of a data set that are missing, broken or of another format."""


class AbsentFilesError(DatasetError):
    """Files of a data set that are in none of the folders where they are looked for."""


class ConfigError(InputError):
    """An experiment file that cannot be used."""


class InputTypeError(HoldfastError, TypeError):
    """An argument of a type that cannot be used."""


class MissingExtraError(HoldfastError, ImportError):
    """A package that only an optional extra installs is missing; the message says which extra."""


class DivergedError(HoldfastError, ValueError):
    """A risk became NaN or infinite during training."""


class SavedModelError(HoldfastError, ValueError):
    """A saved model, checkpoint or record that cannot be used."""


class CorruptFileError(SavedModelError):
    """Bytes on disk are not those that were written."""


class UntrustedFileError(SavedModelError):
    """A file holds something that holdfast refuses to load."""


class StorageError(HoldfastError, OSError):
    """Writing failed; nothing older was touched."""


class ClusterError(HoldfastError, RuntimeError):
    """Fits on other machines that were lost, or rows that do not fit there."""


class PluginError(HoldfastError, ImportError):
    """An entry point of an installed package that cannot be used."""


class HoldfastWarning(UserWarning):
    """Every warning that holdfast gives."""


class SingleEnvironmentWarning(HoldfastWarning):
    """There is nothing to compare: plain ERM is fitted."""


class ConstantJudgeWarning(HoldfastWarning):
    """A judge predicts one class only, so its halves are the label groups."""


class EmptyPartitionWarning(HoldfastWarning):
    """Nobody is mistaken (alpha = 1): the empty half is dropped."""


class AllMistakenWarning(HoldfastWarning):
    """Everybody is mistaken (alpha = 0): interpolating the environments themselves is the oracle."""


class SingleClassEnvironmentWarning(HoldfastWarning):
    """An environment shows one class only; its classifier is that constant."""


class UnseenLabelWarning(HoldfastWarning):
    """Some environment never shows some label, so its judge is always mistaken there."""


class EmptyColumnWarning(HoldfastWarning):
    """A column has no value in some environment, so its classifier cannot use it."""


class SmallGroupWarning(HoldfastWarning):
    """A half or an environment is below the minimum size."""


class IdenticalEnvironmentsWarning(HoldfastWarning):
    """There is no evidence that anything changes between the environments."""


class PrevalenceWarning(HoldfastWarning):
    """Label frequencies differ much between environments; the theory assumes them equal."""


class CollapseWarning(HoldfastWarning):
    """The trained classifier predicts one class only."""


class SolverWarning(HoldfastWarning):
    """A solver stopped before its certificate was reached."""


class NewSiteWarning(HoldfastWarning):
    """Columns of a new site do not fit what the classifier was fitted on."""


class MismatchWarning(HoldfastWarning):
    """A file was saved under another version, CPU type, number of threads or precision."""


def warn(message: str, category: type[HoldfastWarning]) -> None:
    """Warn at the line of the user's that called holdfast, however deep in it the warning comes up."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "holdfast":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def suggest(name: str, known: Sequence[str]) -> str:
    """Return the sentence that helps after an unknown name.

    Examples
    --------
    >>> suggest("logistc", ["logistic", "forest"])
    "Did you mean 'logistic'?"
    >>> suggest("boost", ["xgboost", "boosting"])
    "Did you mean 'boosting'?"
    >>> suggest("x", ["logistic", "forest"])
    "Choose from 'logistic', 'forest'."
    """
    begun = [other for other in known if len(name) > 2 and other.startswith(name)]
    near = begun or get_close_matches(name, known, n=1) or get_close_matches(name.lower(), known, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    more = f" … ({len(known)} in all)" if len(known) > 10 else ""
    return f"Choose from {', '.join(map(repr, known[:10]))}{more}."


def cut_middle(text: str, longest: int) -> str:
    """Return a text without its middle where it is too long: names often differ at their ends.

    Examples
    --------
    >>> cut_middle("Boston judged by Chicago: mistaken", 20)
    'Boston judg…mistaken'
    """
    if len(text) <= longest:
        return text
    end = (longest - 1) * 2 // 5 + 1
    return f"{text[: longest - 1 - end]}…{text[-end:]}"
