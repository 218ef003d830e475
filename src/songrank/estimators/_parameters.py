"""Minimal replacement of scikit-learn's ``BaseEstimator``, for environments without scikit-learn."""

import inspect
from typing import Any, Self


class Parameters:
    """Parameters are constructor arguments, stored unchanged."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name; ``deep`` is ignored."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters; fitted attributes are kept."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                what = f"unknown parameter {name!r} for {type(self).__name__}"
                raise ValueError(f"{what}; expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        standard = inspect.signature(type(self)).parameters
        changed = {name: value for name, value in self.get_params().items() if value != standard[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
