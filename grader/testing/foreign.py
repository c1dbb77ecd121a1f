"""Values that the boundary does not carry: what stands for them in the judge."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Foreign:
    """A returned value that is none of the plain kinds (a tensor subclass, a sparse tensor, a str subclass, ...).

    The value itself stays in the worker. It equals nothing, and every comparison says what came and what to return.

    >>> Foreign("MaskedTensor", "a subclass of torch.Tensor", "a plain torch.Tensor").sentence()
    'returned a MaskedTensor, a subclass of torch.Tensor; return a plain torch.Tensor'
    """

    type_name: str
    why: str = ""
    instead: str = ""

    def sentence(self) -> str:
        """What came, why it cannot be compared and what to return."""
        article = "an" if self.type_name[:1].lower() in tuple("aeio") else "a"
        text = f"returned {article} {self.type_name}"
        if self.why:
            text += f", {self.why}"
        if self.instead:
            text += f"; return {self.instead}"
        return text

    def __rendered__(self) -> str:
        return f"<{self.type_name}>"
