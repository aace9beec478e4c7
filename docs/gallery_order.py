"""The order of the gallery: what most readers look for first."""

from __future__ import annotations

#: Examples of each section: several outputs, streams, curves and fields, structures. Others follow by name.
ORDER = (
    *("coupling", "economy", "no_arguments", "prediction_intervals", "classification", "cokriging"),
    *("which_outputs_go_together", "multitask_svm", "leave_one_out", "colorization"),
    *("stream", "forgetting", "intervals_under_drift", "report", "resume", "river_pipeline", "regret"),
    *("curves", "functions_of_two_variables", "kernel_weights", "vector_field", "operator_random_features"),
    *("flow", "operator_stream", "networks_of_sites", "link_prediction", "label_sets", "preferences"),
)


class ByTopic:
    """A key to sort names of files by; what is not listed comes last."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def __call__(self, filename: str) -> tuple[int, str]:
        """The place of an example."""
        name = filename.removeprefix("plot_").removesuffix(".py")
        return (ORDER.index(name) if name in ORDER else len(ORDER), name)

    def __repr__(self) -> str:
        return type(self).__name__
