"""The part of scikit-learn's ``BaseEstimator`` that the estimators need, for environments without it."""

import inspect
from typing import Any, Self


class Parameters:
    """Parameters are the arguments of the constructor, kept as they were given."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by name; ``deep`` is there for scikit-learn's sake."""
        names = [name for name in inspect.signature(type(self).__init__).parameters if name != "self"]
        return {name: getattr(self, name) for name in names}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; a fit that was made stays as it is."""
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise ValueError(f"{name} is no parameter of {type(self).__name__}; expected one of {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        standard = inspect.signature(type(self).__init__).parameters
        changed = {name: value for name, value in self.get_params().items() if value != standard[name].default}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"
