"""A contract of import-linter: files of a package are imported by files of the same package only.

Others import the package itself, its public interface. `protected` contracts of import-linter could say this too, but
only with one contract for each package, and a new package would have none.
"""

from __future__ import annotations

from importlinter import Contract, ContractCheck, fields, output


class PublicInterfaces(Contract):
    """Every package in the `containers` is imported as a whole."""

    containers = fields.ListField(subfield=fields.StringField())

    def check(self, graph, verbose):
        illegal = []
        packages = {child for container in self.containers for child in graph.find_children(container)}
        for package in sorted(packages - set(self.containers)):
            inside = graph.find_descendants(package)
            for module in sorted(inside):
                for importer in sorted(graph.find_modules_that_directly_import(module) - inside - {package}):
                    details = graph.get_import_details(importer=importer, imported=module)
                    illegal += [(importer, one["line_number"], module, package) for one in details]
        return ContractCheck(kept=not illegal, metadata={"illegal": illegal})

    def render_broken_contract(self, check):
        for importer, line, module, package in check.metadata["illegal"]:
            output.print_error(f"- {importer} (line {line}) imports {module}: import from {package}")
