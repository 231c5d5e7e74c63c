"""The demonstration trains certified models and writes a page that stands alone."""

from cornerstep import Status, demo


def test_demo_trains_certified_models_and_reports_them(tmp_path, capsys):
    demo.main([str(tmp_path / "out")])
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert page.count("<section>") == len(demo.MODELS) == page.count("solved:")
    assert "http://" not in page
    assert "https://" not in page
    assert "Certified models" in capsys.readouterr().out


def test_demo_models_are_good_and_proven():
    for train in demo.MODELS:
        model = train(0)
        assert model.status is Status.SOLVED
        assert model.relative_gap <= 1e-5
        assert model.score > (0.3 if model.score_name == "R²" else 0.9)
