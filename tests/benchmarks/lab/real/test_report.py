"""The file as Markdown."""

from benchmarks.lab.real.report import markdown


def test_a_table_a_workload_with_the_labs_figures_beside(make_store, make_run) -> None:
    store = make_store(
        make_run("uncontrolled", 1, 200.0),
        make_run("uncontrolled", 2, 210.0),
        make_run("fixed:8", 1, 100.0, hit_rate=0.9),
        make_run("budget", 1, 80.0),
        predictions=(make_run("uncontrolled", 1, 190.0), make_run("fixed:8", 1, 110.0), make_run("budget", 1, 100.0)),
    )
    text = markdown(store)
    assert "**swe**: 24 agents, 240 steps" in text
    assert "3.0 times the pool" in text
    assert (
        "| `uncontrolled` | 205.0 (200.0..210.0) | 1.00 | 2.50 | 0.50 | 100 | 0 | 190.0 | 1.00 | 1.90 | -5.0% |" in text
    )
    assert "| `fixed:8` | 100.0 | 2.00 | 1.25 | 0.90 | 100 | 0 | 110.0 | 1.73 | 1.10 | +10.0% |" in text
    assert "Kendall's tau 1.00; of the 3 pairs" in text


def test_what_makes_a_run_doubtful_is_said(make_store, make_run) -> None:
    run = make_run("concur", 1, 90.0, others_cpu=0.2, readings=10, missed=5, lost=1, error="a: refused")
    text = markdown(make_store(run))
    assert "other programs used 20% of all cores, so it is left out" in text
    assert "5 of 10 readings" in text
    assert "1 agents lost; a: refused" in text


def test_the_report_names_no_machine(make_store, make_run) -> None:
    assert "/tmp" not in markdown(make_store(make_run("concur", 1, 90.0)))
