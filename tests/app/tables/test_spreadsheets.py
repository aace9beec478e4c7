"""A spreadsheet is not a text file."""

import zipfile

import pytest

from ovk.app.tables import open_records


@pytest.mark.parametrize("name", ["table.xlsx", "table.csv"])
def test_excel_files_are_refused_with_the_cure(tmp_path, name):
    with zipfile.ZipFile(tmp_path / name, "w") as file:
        file.writestr("xl/worksheets/sheet1.xml", "<worksheet/>")
    with pytest.raises(ValueError, match=rf"^{name} is a spreadsheet or another zip file.*save it as CSV"):
        open_records(tmp_path / name)
