"""The demonstration trains certified models and writes a page that stands alone."""

import pytest

from cornerstep import Status, certificate
from cornerstep.cli import demo


@pytest.fixture(scope="module")
def models():
    return [train(0) for train in demo.MODELS]


def test_demo_models_are_good_and_proven(models):
    for model in models:
        proof = certificate(model.estimator)
        assert proof.status is Status.SOLVED
        assert proof.gap <= 0.02
        assert model.score > 0.9


def test_demo_reports_every_model_on_one_page(models, tmp_path, capsys, monkeypatch):
    ready = iter(models)
    monkeypatch.setattr(demo, "MODELS", tuple(_named(next(ready)) for _ in models))
    demo.main([str(tmp_path / "out")])
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count("<article") == len(models) == page.count('class="proof"')
    assert "http://" not in page
    assert "https://" not in page
    assert "Certified models" in capsys.readouterr().out


def _named(model):
    def train(verbose):
        """A model that is already trained."""
        return model

    return train
