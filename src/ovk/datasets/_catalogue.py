"""The table of all data sets, the single home of what is known about each: see also `_single`."""

from __future__ import annotations

from ovk.datasets._entry import DataFile, Dataset
from ovk.datasets._single import ENTRIES

# name: (title, (samples, inputs, outputs), sha256)
_MTR = {
    "andro": (
        "six water-quality variables five days ahead, Thermaikos Gulf",
        (49, 30, 6),
        "08f0e2757b2a7635136ac58ea76c4e801ffeb0a81116b29e6ac169228c8aa132",
    ),
    "edm": (
        "control of an electrical discharge machine",
        (154, 16, 2),
        "37777374030f592a53cbcf597ae0aa6105238a1c696dd04ccb229be982f6bc5b",
    ),
    "enb": (
        "heating and cooling load of buildings",
        (768, 8, 2),
        "8277d9094ccda6da2cd1c2b79c90ca201fa3695e75aca173ffc43138dcab0071",
    ),
    "jura": (
        "cadmium, cobalt and copper in the Swiss Jura from cheaper measurements",
        (359, 15, 3),
        "78ce7655f49073e3622ef7ba25657b3900a2b279ba3d48cb82e353e56bac3d2a",
    ),
    "slump": (
        "slump, flow and strength of concrete",
        (103, 7, 3),
        "3a9a9eba416b06c7668153b44073a0e165afbfc9e526d53b174e5f97a707ca6c",
    ),
    "wq": (
        "14 species of plants and animals in Slovenian rivers",
        (1060, 16, 14),
        "4a0906b4a51bf52c986790ddaf261ba51faa3da9cffe823badabd88d38d252fe",
    ),
    "sf1": (
        "counts of three classes of solar flares",
        (323, 28, 3),
        "8f78e64aca64f7c0c7ba4d9b2f114feb2a6f72e6116e87d7dab94e7cab426d93",
    ),
    "atp1d": (
        "minimum prices of airline tickets the next day",
        (337, 411, 6),
        "ed935ba476c4994ba40d6712d590fb389709cceba7cf7dbbb33ef28c84762bb9",
    ),
}
MTR_NAMES = tuple(_MTR)

# name: (file stem, sha256 of the trajectories, sha256 of the network)
_DREAM3 = {
    "E1": (
        "Ecoli1",
        "1f42e5918c247f9bb7e53d5b6512a1d2b0c559eee0a643fbd3cf614b8d814563",
        "894c9f5077edc198c8e6fc5eb21b2b20dfbc9ba03a28514a7b357c55b91b971d",
    ),
    "E2": (
        "Ecoli2",
        "0c3a1294abb732920cbc4b24ab0341078ef1a1c8ae17009b096658c9463c997b",
        "e7c559858749e06a71b1cca03c79286e6c3ff0aaf7a2cd1b9206bfa9246d39e6",
    ),
    "Y1": (
        "Yeast1",
        "42c73141831222f2a09b779b449f621354a4c10fdc5292acd4c5ef0237bbfbf0",
        "caa325b78cc44825e7e227094fdb4a192a0e4801dc8a384b668b188adeef01cb",
    ),
    "Y2": (
        "Yeast2",
        "efb4e3579679342f29508dec1bcc6957354b3e862f29802734d99e1227a9fa07",
        "d004c0b82241fc50a6f820a61f037ae8a068f40998d8e4b19be7673cc7df97c6",
    ),
    "Y3": (
        "Yeast3",
        "bbfea724b54c04e3ac35206ff8ff665ab36f90de1405665cec830cb6ab2825db",
        "b9c70c4633532569f79cbc0fc879b453aa114fd1f73a4929de2dcc70012792bd",
    ),
}
DREAM3_NAMES = tuple(_DREAM3)


def _mtr(name: str, title: str, shape: tuple[int, int, int], sha256: str) -> Dataset:
    return Dataset(
        name=f"mtr/{name}",
        title=f"Mulan multi-target regression, {name}: {title}",
        shape=shape,
        files=(DataFile(f"mtr/{name}.arff", sha256),),
        publisher="Mulan",
        obtain="https://mulan.sourceforge.net/datasets-mtr.html",
        citation="Spyromitros-Xioufis, Tsoumakas, Groves and Vlahavas (2016), Multi-target regression via "
        "input space expansion: treating targets as inputs, Machine Learning 104(1), 55-98",
        terms="cite the publication",
    )


def _dream3(name: str, stem: str, trajectories: str, network: str) -> Dataset:
    return Dataset(
        name=f"dream3/{name}",
        title=f"DREAM3 in-silico network {stem}, 10 genes: 4 noisy series of 21 points and the true network",
        shape=(80, 10, 10),
        files=(
            DataFile(f"dream3/InSilicoSize10-{stem}-trajectories.tsv", trajectories),
            DataFile(f"dream3/InSilicoSize10-{stem}-network.tsv", network),
        ),
        publisher="DREAM challenges",
        obtain="DREAM3 in silico network challenge, Synapse page syn2853594",
        citation="Prill et al. (2010), Towards a rigorous assessment of systems biology models: the DREAM3 "
        "challenges, PLoS ONE 5(2), e9202",
        terms="cite the publication",
    )


CATALOGUE: dict[str, Dataset] = {
    entry.name: entry
    for entry in (
        *ENTRIES,
        *(_mtr(name, *known) for name, known in _MTR.items()),
        *(_dream3(name, *known) for name, known in _DREAM3.items()),
    )
}
