"""The live page and its guard; in a browser: it updates without reload, and text stays text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib import request
from urllib.error import HTTPError

import pytest

from llmprism.watch.live.application import Live, application
from llmprism.watch.live.serving import address_of, served, token_for
from llmprism.watch.metrics import Metrics
from prism_common.errors import UserError
from watching import Watched, pieces, put

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
HOSTILE = '<img src=x onerror="document.title=1"><b>job'


@contextmanager
def _page(watched: Watched, token: str = "") -> Iterator[str]:
    live, metrics = Live(), Metrics()
    watched.listeners = [live, metrics]
    with served(application(live, metrics, token), "127.0.0.1", 0) as url:
        yield url


def _get(url: str, **headers: str) -> tuple[int, str]:
    try:
        with request.urlopen(request.Request(url, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def _first_snapshot(url: str) -> dict[str, Any]:
    with request.urlopen(f"{url}events", timeout=10) as stream:
        for line in stream:
            if line.startswith(b"data:"):
                content: dict[str, Any] = json.loads(line[5:])
                return content
    raise AssertionError("no event came")


def test_page_events_details_and_metrics_are_served(world: Any, watched: Watched) -> None:
    with _page(watched) as url:
        assert _first_snapshot(url)["jobs"] == []
        assert [_get(f"{url}-/{name}")[0] for name in ("healthy", "ready")] == [200, 503]
        put(world.flows, watched.incoming, "0.parquet")
        watched.round()
        snapshot = _first_snapshot(url)
        details = json.loads(_get(f"{url}jobs/job-0")[1])
        assert [_get(f"{url}{name}")[0] for name in ("", "live.js", "page.css", "metrics")] == (
            [200] * 4
        )
        assert _get(f"{url}jobs/none")[0] == 404
    (job,) = snapshot["jobs"]
    assert (job["name"], job["gpus"], job["server_count"]) == ("job-0", 8, 8)
    assert [one["stage"] for one in snapshot["incidents"]] == ["resolved"]
    assert snapshot["fates"]["kept"] == len(world.flows)
    (exporter,) = snapshot["exporters"]
    assert exporter["lost"] == 0
    assert len(details["delays"]["servers"]) == 8
    assert details["timeline"]["rows"]


def test_without_the_token_nothing_is_answered(watched: Watched, tmp_path: Path) -> None:
    with _page(watched, token="secret") as url:
        names = ("", "events", "jobs/job-0", "metrics", "live.js", "?token=wrong")
        assert {_get(f"{url}{name}")[0] for name in names} == {401}
        assert _get(f"{url}-/healthy") == (200, "healthy\n")
        assert _get(f"{url}metrics", Authorization="Bearer secret")[0] == 200
        assert _get(url, Cookie="llmprism_token=secret")[0] == 200
    file = tmp_path / "token"
    file.write_text("secret\n")
    assert [token_for("127.0.0.1", None), token_for("0.0.0.0", file)] == ["", "secret"]
    for host, given in (("0.0.0.0", None), ("monitor.example", None), ("::", None)):
        with pytest.raises(UserError, match="needs a token"):
            token_for(host, given)
    file.write_text("\n")
    with pytest.raises(UserError, match="no token"):
        token_for("0.0.0.0", file)
    with pytest.raises(UserError, match="no address"):
        address_of("host:http")


def test_a_page_of_another_site_gets_nothing_by_a_name_of_its_own(watched: Watched) -> None:
    with _page(watched) as url:
        assert [_get(url, Host=one)[0] for one in ("localhost", "127.0.0.1:80")] == [200, 200]
        assert [_get(url, Host=one)[0] for one in ("rebound.example", "10.0.0.1:80")] == [421, 421]
        assert _get(f"{url}-/healthy", Host="rebound.example")[0] == 200


def test_metrics_are_answered_beside_any_number_of_open_streams(watched: Watched) -> None:
    with _page(watched) as url, ExitStack() as held:
        for _ in range(70):
            assert held.enter_context(request.urlopen(f"{url}events", timeout=10)).status == 200
        assert _get(f"{url}metrics")[0] == 200


@pytest.mark.full
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: apt-get install chromium")
@pytest.mark.parametrize("width", [1200, 400])
def test_in_a_browser_it_updates_and_a_name_with_html_stays_text(
    world: Any, watched: Watched, width: int
) -> None:
    content = json.dumps(world.topology).replace('"a-0-1"', json.dumps(HOSTILE))
    watched.begin(json.loads(content))
    problems: list[str] = []
    from playwright.sync_api import sync_playwright

    with _page(watched) as url, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": 800})
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(url)
        page.wait_for_selector("text=Nothing stands out so far")
        for number, records in enumerate(pieces(world.flows, 2)):
            put(records, watched.incoming, f"{number}.parquet")
            watched.round()
        page.wait_for_selector("#incidents .resolved")
        page.wait_for_selector("#details:not([hidden])")
        assert "onerror" in page.inner_text("main")
        assert page.query_selector("main img") is None
        assert page.title() == "llmprism watch"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        browser.close()
    assert problems == []
