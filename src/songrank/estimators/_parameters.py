"""The part of scikit-learn's ``BaseEstimator`` that the estimators need, for environments without it."""

import inspect
from typing import Any, Self


class Parameters:
    """Parameters are the arguments of the constructor, kept as they were given."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name; ``deep`` makes no difference."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; fitted attributes stay."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(f"{name} is no parameter of {type(self).__name__}; expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        standard = inspect.signature(type(self)).parameters
        changed = {name: value for name, value in self.get_params().items() if value != standard[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
