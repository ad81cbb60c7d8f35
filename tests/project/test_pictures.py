"""The pictures of the docs: a film of frames, and a chart of what a table says."""

from io import BytesIO

import pytest
from film import CAPTION_HEIGHT, LAST_MS, SHOWN_MS, WIDTH, Film
from PIL import Image, ImageSequence
from speed_chart import chart, figures

pytestmark = pytest.mark.any_database

TABLE = """
| | MariaDB | Redis |
|---|---:|---:|
| django-dbqueue, best | 40,041 | |
| rq, best / default | | 311 / 70 |
| celery, best / default | | 1,332 / 1,142 |
| **ours, best : rq** | 129 | |
"""


def png(colour):
    written = BytesIO()
    Image.new("RGB", (1800, 900), colour).save(written, "PNG")
    return written.getvalue()


def test_a_film_shows_each_frame_with_its_caption_and_rests_at_the_end(tmp_path):
    film = Film()
    for colour, caption in (("white", "before"), ("navy", "kill -9"), ("white", "after")):
        film.add(png(colour), caption)
    assert "3 frames" in film.save(tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as shown:
        assert len([*ImageSequence.Iterator(shown)]) == 3
        assert shown.size == (WIDTH, WIDTH // 2 + CAPTION_HEIGHT)
        is_light, durations = [], []
        for number in range(3):
            shown.seek(number)
            frame = shown.convert("RGB")
            is_light.append(frame.resize((1, 1), box=(0, 0, 10, 10)).tobytes()[0] > 200)
            durations.append(shown.info["duration"])
            words = frame.crop((0, WIDTH // 2, WIDTH, frame.height))
            assert words.getextrema()[0] != (30, 30)
    assert is_light == [True, False, True]
    assert durations == [SHOWN_MS, SHOWN_MS, LAST_MS]


def test_a_chart_has_the_best_rates_of_a_table_and_nothing_else():
    assert figures(TABLE) == {
        "MariaDB": [("django-dbqueue, best", 40041)],
        "Redis": [("celery", 1332), ("rq", 311)],
    }
    drawn = chart(figures(TABLE))
    assert [text in drawn for text in (">40,041<", ">1,332<", ">311<")] == [True] * 3
    assert ">70<" not in drawn
    assert ">129<" not in drawn


def test_a_page_without_a_table_draws_nothing():
    with pytest.raises(SystemExit, match="no table"):
        figures("# Performance\n")
