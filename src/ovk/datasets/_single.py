"""The data sets that stand alone: their files with checksums, publishers, citations and terms."""

from __future__ import annotations

from ovk.datasets._entry import Dataset, sums

_UCI = "UCI Machine Learning Repository"
_SCIKIT_FUSION = "Python package scikit-fusion"
_SCIKIT_FUSION_CITE = (
    "Zitnik and Zupan (2015), Data fusion by matrix factorization, IEEE Transactions on Pattern Analysis and "
    "Machine Intelligence 37(1), 41-53"
)
_FDA_CITE = "Ramsay and Silverman (2005), Functional Data Analysis, 2nd edition, Springer"

ENTRIES = (
    Dataset(
        name="wine",
        title="Wine Quality, white wines: 11 physico-chemical measurements and a quality grade",
        shape=(4898, 11, 1),
        files=sums("wine", "76c3f809815c17c07212622f776311faeb31e87610d52c26d87d6e361b169836  winequality-white.csv"),
        publisher=_UCI,
        obtain="https://archive.ics.uci.edu/dataset/186/wine+quality",
        citation="Cortez et al. (2009), Modeling wine preferences by data mining from physicochemical "
        "properties, Decision Support Systems 47(4), 547-553",
        terms="CC BY 4.0",
    ),
    Dataset(
        name="parkinsons",
        title="Parkinsons Telemonitoring: voice measures of 42 patients and their UPDRS scores",
        shape=(5875, 19, 2),
        files=sums(
            "parkinsons",
            "f2c7d5025dec4e92e7feae367a5f7ccf58789a10ac6b54bdf15976c599f9dd39  parkinsons_updrs.data",
        ),
        publisher=_UCI,
        obtain="https://archive.ics.uci.edu/dataset/189/parkinsons+telemonitoring",
        citation="Tsanas, Little, McSharry and Ramig (2009), Accurate telemonitoring of Parkinson's disease "
        "progression by non-invasive speech tests, IEEE Transactions on Biomedical Engineering 57(4)",
        terms="CC BY 4.0",
    ),
    Dataset(
        name="codrna",
        title="cod-rna, training part: is a pair of sequences a non-coding RNA (1) or not (-1)",
        shape=(59535, 8, 1),
        files=sums("codrna", "6c92af25e63f0f14f23e6d5e1e9c251531756fe2e099c68b3e6f33511cef3ad4  codrna.csv.gz"),
        publisher="LIBSVM Data, binary classification",
        obtain="https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary.html, set cod-rna, "
        "rewritten as csv with the label last",
        citation="Uzilov, Keegan and Mathews (2006), Detection of non-coding RNAs on the basis of predicted "
        "secondary structure formation free energy change, BMC Bioinformatics 7:173",
        terms="cite the publication",
    ),
    Dataset(
        name="elec2",
        title="Electricity market of New South Wales, half-hourly: does the price go up (1) or down (0)",
        shape=(45312, 6, 1),
        files=sums("elec2", "c3942c94880f5ddd8b8a8729723e1b63d5fe7045e63ed4ec52bb32939dea8c16  elec2.csv.gz"),
        publisher="MOA (Massive Online Analysis)",
        obtain="https://sourceforge.net/projects/moa-datastream, file elecNormNew.arff.zip, rewritten as csv "
        "without the columns date and day",
        citation="Harries (1999), Splice-2 comparative evaluation: electricity pricing, technical report, "
        "University of New South Wales",
        terms="cite the report",
    ),
    Dataset(
        name="household",
        title="Individual household electric power consumption, one row a minute, 2006-12-16 to 2010-11-26",
        shape=(2075259, 4, 7),
        files=sums(
            "household",
            "26abb3b02c44016787699e001410a3fa683d5f2d1587778e9dd086b544703ede  minute_household_power.csv.xz",
        ),
        publisher=_UCI,
        obtain="https://archive.ics.uci.edu/dataset/235/individual+household+electric+power+consumption, "
        "with commas for semicolons and compressed by xz",
        citation="Hebrail and Berard (2012), Individual Household Electric Power Consumption, doi:10.24432/C58K54",
        terms="CC BY 4.0",
    ),
    Dataset(
        name="french_load",
        title="Electric load of 12 regions of France at 20:00, with lags, temperatures, calendar, 2013-2021",
        shape=(2409, 132, 12),
        files=sums(
            "load",
            "2f5835f08bfbfa7074eb8327e05ee5ad5df4e3c84d241f7c495828658f5b5265  fr_regional_load.csv.gz",
        ),
        publisher="R package opera",
        obtain="R package opera, regional load data, written as csv",
        citation="Gaillard and Goude, opera: Online Prediction by Expert Aggregation, R package",
        terms="LGPL",
    ),
    Dataset(
        name="canadian_weather",
        title="Canadian weather: daily temperature and precipitation at 35 stations, averaged over 1960-1994",
        shape=(35, 365, 365),
        files=sums(
            "functional",
            "d50a9f2b0088e91d330d719bcf31e8a433329a0ed7d4e0583c802656254cdef0  canadian_weather.npz",
        ),
        publisher="R package fda",
        obtain="R package fda, object CanadianWeather, written as npz",
        citation=_FDA_CITE,
        terms="GPL",
    ),
    Dataset(
        name="gait",
        title="Gait: hip and knee angles of 39 boys over a cycle of 20 points",
        shape=(39, 20, 20),
        files=sums("functional", "ea4be0cbeabf1b0df975cc6f31ea64b320abb3645d02529326157e9c30ed3183  gait.npz"),
        publisher="R package fda",
        obtain="R package fda, object gait, written as npz",
        citation=_FDA_CITE,
        terms="GPL",
    ),
    Dataset(
        name="cora",
        title="Cora: 2708 papers in 7 classes, 1433 words, 5278 citations taken as undirected",
        shape=(2708, 1433, 1),
        files=sums("networks", "75f509dcd70ca700321287f7ebfec5d69f6fb69b11e8570f972677dbbd64e84e  cora.npz"),
        publisher="Planetoid",
        obtain="https://github.com/kimiyoung/planetoid, the cora files, written as npz",
        citation="Yang, Cohen and Salakhutdinov (2016), Revisiting semi-supervised learning with graph "
        "embeddings, ICML; Sen et al. (2008), Collective classification in network data, AI Magazine 29(3)",
        terms="MIT",
    ),
    Dataset(
        name="dicty",
        title="Dictyostelium: expression, protein interactions and Gene Ontology terms of 1219 genes",
        shape=(1219, 282, 116),
        files=sums(
            "networks/dicty",
            """
            296127f0a90346a0f14eeeb4f045009279c2197ea7d875c54feacf9ca2fdeebf  dicty.gene_expression.csv.gz
            cfbee9766e6bf8d244874089e77fe87a9f4a58e25d6430c70eb3127283edf0e9  dicty.gene_annnotations.csv.gz
            f4c77795cbdc2dd0bc47e6a5871d00ae090a78a3de0db98561ac8eb32a60102e  dicty.ppi.csv.gz
            """,
        ),
        publisher=_SCIKIT_FUSION,
        obtain="folder skfusion/datasets/data/dicty of its source",
        citation=_SCIKIT_FUSION_CITE,
        terms="GPL-3",
    ),
    Dataset(
        name="yeast_kegg",
        title="Yeast: 150 proteins of the KEGG pathways, their network and a kernel between them",
        shape=(150, 150, 150),
        files=sums(
            "networks",
            "f7f99a88078177f6a52e8aee38a2e013da8d0e22f277f0c3a04331d4d1558d49  yeast_kegg_xnet.npz",
        ),
        publisher="R package xnet",
        obtain="R package xnet, objects proteinInteraction and Kmat_y2h_sc, written as npz",
        citation="Yamanishi, Vert and Kanehisa (2004), Protein network inference from multiple genomic data: "
        "a supervised approach, Bioinformatics 20, i363-i370",
        terms="GPL-3",
    ),
    Dataset(
        name="pharma",
        title="Pharmacology: chemical fingerprints and pharmacological actions of 1260 drugs",
        shape=(1260, 920, 130),
        files=sums(
            "chemistry",
            """
            f2ee338cad1c94deab9524718dd563a0dbe28a5c0a0be5a1d4e115f96735bf11  pharma.fingerprints.csv.gz
            52f2e36ef9530963d7b22d762b5a75e92e0adb3831ed10dbfb2a34156469aa9a  pharma.actions.csv.gz
            418a8048411548a3c41c56713c69c2b7611939e4725814f69239fb4fe37957e1  pharma.tanimoto.csv.gz
            """,
        ),
        publisher=_SCIKIT_FUSION,
        obtain="folder skfusion/datasets/data/pharma of its source",
        citation=_SCIKIT_FUSION_CITE,
        terms="GPL-3",
    ),
    Dataset(
        name="california_gps",
        title="California: velocities of the ground at 2458 GPS positions, relative to North America",
        shape=(2458, 2, 2),
        files=sums(
            "fields",
            "54fa4aa490883c41362fae5cbf4925f2b1036361f4169ce5d2035828e22ff89a  california-gps.csv.xz",
        ),
        publisher="Python package verde",
        obtain="https://github.com/fatiando/verde, sample data california-gps.csv.xz",
        citation="Uieda (2018), Verde: Processing and gridding spatial data using Green's functions, Journal "
        "of Open Source Software 3(30), 957; data: EarthScope Plate Boundary Observatory, UNAVCO",
        terms="BSD-3-Clause",
    ),
    Dataset(
        name="glad",
        title="GLAD: positions and velocities of drifters in the Gulf of Mexico, with a grid to predict on",
        shape=(1183, 2, 2),
        files=sums(
            "fields",
            """
            980d1f08484265fd910ed8ac44f553663185e79a6135bdedc24b1cf88c39bb2e  XY_train_gladfull.csv
            3ffe43ddc5cd3049802f1a8f01bc6f56bf72fe42488e31aaf0268616061ccd15  UV_train_gladfull.csv
            9de93e3aeace391c92625e0ecd1fd14ff17c6e97e50a0f44be47fa12294b9b80  XY_test_gladfull.csv
            57db81a5cb3ce156b68b5b615994da0c8e763f1fea17e6fa45188ea769d532c6  Xgrid_gladfull.csv
            a2d1e9266e6a6114a6ecd619c33e50d3eacef89f4d87319db1b56d78618d75d2  Ygrid_gladfull.csv
            """,
        ),
        publisher="code repository Helmholtz-GP of the publication cited",
        obtain="arXiv:2302.10364, the files whose names end in gladfull.csv",
        citation="Berlinghieri et al. (2023), Gaussian processes at the Helm(holtz): a more fluid model for "
        "ocean currents, ICML",
        terms="MIT",
    ),
    Dataset(
        name="jura",
        title="Jura: seven heavy metals in Swiss topsoil at 259 places, and at 100 more for validation",
        shape=(259, 2, 7),
        files=sums(
            "geostat",
            """
            2eee2e4cb009b49d26109a8d85a2d2e9a4d97fb42b33615cc110aedd14d5fcf9  jura_pred.csv
            6a576aa58bcafd3b037c44bf65a414c57e0bbf5ee5a6ba9fc52d79451cda848c  jura_val.csv
            """,
        ),
        publisher="R package gstat",
        obtain="R package gstat, objects jura.pred and jura.val, written as csv",
        citation="Goovaerts (1997), Geostatistics for Natural Resources Evaluation, Oxford University Press",
        terms="GPL",
    ),
)
