"""A fixture that calls the command line as a function."""

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from ovk.app.cli import main


@pytest.fixture
def ovk(capsys):
    """``ovk("stream", ...)`` returns the exit code, standard output and standard error; a traceback is a failure."""

    def call(*arguments):
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        code = end.value.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert "bug in ovk" not in err, err
        if code not in (0, 2):
            *warnings, error = err.splitlines()
            assert error.startswith("ovk: "), "an error is one sentence"
            assert all(line.startswith("warning: ") for line in warnings)
        return code, out, err

    return call
