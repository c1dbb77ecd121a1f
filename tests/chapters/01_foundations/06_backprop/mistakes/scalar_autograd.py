"""Wrong programs for 1.6/scalar_autograd, as edits of the solution."""

from grader.testing import edit

overwrites_grad = edit("adjoints.get(id(parent), 0.0) + adjoint * slope", "adjoint * slope")

recursive_topology = edit.function(
    "_topological_order",
    """
def _topological_order(root: Value) -> list[Value]:
    order: list[Value] = []
    visited = set()

    def visit(node: Value) -> None:
        if id(node) not in visited:
            visited.add(id(node))
            for parent, _ in node._parents:
                visit(parent)
            order.append(node)

    visit(root)
    return order
""",
)

_WALK = """        for node in reversed(_topological_order(self)):
            adjoint = adjoints[id(node)]
            node.grad += adjoint
            for parent, slope in node._parents:
                adjoints[id(parent)] = adjoints.get(id(parent), 0.0) + adjoint * slope
"""

depth_first_without_order = edit(
    _WALK,
    """        waiting, visited = [self], set()
        while waiting:
            node = waiting.pop()
            if id(node) in visited:
                continue
            visited.add(id(node))
            for parent, slope in node._parents:
                adjoints[id(parent)] = adjoints.get(id(parent), 0.0) + adjoints[id(node)] * slope
                waiting.append(parent)
        for node in _topological_order(self):
            node.grad += adjoints[id(node)]
""",
)

stale_intermediate_grads = edit(
    _WALK,
    """        self.grad += seed
        for node in reversed(_topological_order(self)):
            for parent, slope in node._parents:
                parent.grad += node.grad * slope
""",
)

zeroes_before_each_pass = edit("            node.grad += adjoint\n", "            node.grad = adjoint\n")

reflected_sub_or_div_wrong = edit("return _as_value(other) - self", "return self - other").then(
    "return _as_value(other) / self", "return self / other"
)

relu_half_at_zero = edit("1.0 if self.data > 0.0 else 0.0", "1.0 if self.data >= 0.0 else 0.0")
