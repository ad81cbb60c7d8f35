"""What the bytes of a client mean, however they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_dbqueue.beanstalk import commands
from django_dbqueue.beanstalk.protocol import (
    BAD_FORMAT,
    EXPECTED_CRLF,
    JOB_TOO_BIG,
    LINE_MAX,
    UNKNOWN_COMMAND,
    CommandReader,
    Refused,
)
from tests.kit.examples import examples

LONGEST_TUBE = "a" * 200

UNDERSTOOD = [
    (b"put 1 2 3 4\r\nabcd\r\n", commands.Put(1, 2, 3, b"abcd")),
    (b"put  4294967295   0 0 0\r\n\r\n", commands.Put(2**32 - 1, 0, 0, b"")),
    (b"put 0 0 1 4\r\n\r\n\r\n\r\n", commands.Put(0, 0, 1, b"\r\n\r\n")),
    (b"put 0 0 1 2\r\n\0\xff\r\n", commands.Put(0, 0, 1, b"\0\xff")),
    (b"use a+/;.$_()-Z9\r\n", commands.Use("a+/;.$_()-Z9")),
    (b"watch " + LONGEST_TUBE.encode() + b"\r\n", commands.Watch(LONGEST_TUBE)),
    (b"ignore x\r\n", commands.Ignore("x")),
    (b"reserve\r\n", commands.Reserve()),
    (b"reserve-with-timeout 0\r\n", commands.ReserveWithTimeout(0)),
    (b"reserve-with-timeout 2147483647\r\n", commands.ReserveWithTimeout(2**31 - 1)),
    (b"reserve-job 18446744073709551615\r\n", commands.ReserveJob(2**64 - 1)),
    (b"delete 00000000000000000000000000007\r\n", commands.Delete(7)),
    (b"release 7 8 9\r\n", commands.Release(7, 8, 9)),
    (b"bury 7 8\r\n", commands.Bury(7, 8)),
    (b"touch 7\r\n", commands.Touch(7)),
    (b"kick 100\r\n", commands.Kick(100)),
    (b"kick-job 7\r\n", commands.KickJob(7)),
    (b"peek 7\r\n", commands.Peek(7)),
    (b"peek-ready\r\n", commands.PeekReady()),
    (b"peek-delayed\r\n", commands.PeekDelayed()),
    (b"peek-buried\r\n", commands.PeekBuried()),
    (b"stats\r\n", commands.Stats()),
    (b"stats-job 7\r\n", commands.StatsJob(7)),
    (b"stats-tube x\r\n", commands.StatsTube("x")),
    (b"list-tubes\r\n", commands.ListTubes()),
    (b"list-tube-used\r\n", commands.ListTubeUsed()),
    (b"list-tubes-watched\r\n", commands.ListTubesWatched()),
    (b"pause-tube  x  60\r\n", commands.PauseTube("x", 60)),
    (b"quit\r\n", commands.Quit()),
]

REFUSED = [
    (b"\r\n", UNKNOWN_COMMAND),
    (b" reserve\r\n", UNKNOWN_COMMAND),
    (b"RESERVE\r\n", UNKNOWN_COMMAND),
    (b"delete\r\n", UNKNOWN_COMMAND),
    (b"stats-tubex\r\n", BAD_FORMAT),
    (b"re\rserve\r\n", UNKNOWN_COMMAND),
    (b"res\nerve\r\n", UNKNOWN_COMMAND),
    (b"reserve\0\r\n", BAD_FORMAT),
    (b"reserve \r\n", BAD_FORMAT),
    (b"statsx\r\n", BAD_FORMAT),
    (b"list-tubes x\r\n", BAD_FORMAT),
    (b"put 1 2 3\r\n", BAD_FORMAT),
    (b"put 1 2 3 -4\r\n", BAD_FORMAT),
    (b"put 1 2 3 4 \r\n", BAD_FORMAT),
    (b"put 4294967296 0 0 0\r\n", BAD_FORMAT),
    (b"put a 0 0 0\r\n", BAD_FORMAT),
    (b"put 1,0 0 0\r\n", BAD_FORMAT),
    (b"delete 18446744073709551616\r\n", BAD_FORMAT),
    (b"delete " + b"9" * 200 + b"\r\n", BAD_FORMAT),
    (b"delete 7x\r\n", BAD_FORMAT),
    (b"delete 0x7\r\n", BAD_FORMAT),
    (b"delete \xd9\xa7\r\n", BAD_FORMAT),
    (b"release 7 8\r\n", BAD_FORMAT),
    (b"bury 7\r\n", BAD_FORMAT),
    (b"kick -1\r\n", BAD_FORMAT),
    (b"reserve-with-timeout \r\n", BAD_FORMAT),
    (b"reserve-with-timeout 2147483648\r\n", BAD_FORMAT),
    (b"use \r\n", BAD_FORMAT),
    (b"use -x\r\n", BAD_FORMAT),
    (b"use x y\r\n", BAD_FORMAT),
    (b"use \xc3\xa4\r\n", BAD_FORMAT),
    (b"use x\n\r\n", BAD_FORMAT),
    (b"use " + b"a" * 201 + b"\r\n", BAD_FORMAT),
    (b"pause-tube x\r\n", BAD_FORMAT),
    (b"pause-tube 5\r\n", BAD_FORMAT),
    (b"x" * LINE_MAX + b"\r\n", BAD_FORMAT),
    (b"put 0 0 0 4\r\nabcde\r", EXPECTED_CRLF),
    (b"put 0 0 0 65536\r\n" + b"a" * 65536 + b"\r\n", JOB_TOO_BIG),
    (b"put 0 0 0 65536x\r\n" + b"a" * 65536 + b"\r\n", JOB_TOO_BIG),
]


def names(cases):
    return [repr(sent)[2:40] for sent, _ in cases]


def read_all(reader, data, cuts=()):
    found = []
    for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
        reader.feed(data[start:end])
        while (command := reader.next()) is not None:
            found.append(command)
    return found


@pytest.mark.parametrize(("sent", "meant"), UNDERSTOOD, ids=names(UNDERSTOOD))
def test_a_command_is_understood(sent, meant):
    [found] = read_all(CommandReader(), sent)
    assert found == meant
    assert type(found) is type(meant)


@pytest.mark.parametrize(("sent", "reply"), REFUSED, ids=names(REFUSED))
def test_what_is_no_command_is_refused_and_the_next_one_is_understood(sent, reply):
    refused, following = read_all(CommandReader(), sent + b"touch 7\r\n")
    assert isinstance(refused, Refused)
    assert refused.reply == reply
    assert following == commands.Touch(7)


def test_the_longest_line_is_understood_and_one_byte_more_is_not():
    for length, reply in ((LINE_MAX, UNKNOWN_COMMAND), (LINE_MAX + 1, BAD_FORMAT)):
        [found] = read_all(CommandReader(), b"x" * (length - 2) + b"\r\n")
        assert found.reply == reply, length


def test_a_body_after_a_line_that_makes_no_sense_is_read_as_commands():
    found = read_all(CommandReader(), b"put x 0 0 5\r\nstats\r\n")
    assert found == [Refused(BAD_FORMAT), commands.Stats()]


def test_of_what_is_too_long_nothing_is_held():
    reader = CommandReader(job_size_max=10)
    reader.feed(b"put 0 0 0 1000000\r\n")
    for _ in range(500):
        reader.feed(b"x" * 1000)
        assert reader.next() is None
        assert len(reader) == 0
    reader = CommandReader()
    for _ in range(500):
        reader.feed(b"x" * 1000)
        assert reader.next() is None
        assert len(reader) < LINE_MAX


ANY = st.one_of(
    st.sampled_from([sent for sent, _ in UNDERSTOOD + REFUSED if len(sent) < 500]),
    st.binary(max_size=300).map(lambda noise: noise + b"\r\n"),
)


@examples(100)
@given(st.lists(ANY, max_size=6).map(b"".join), st.data())
def test_it_makes_no_difference_how_the_bytes_are_cut(data, draw):
    positions = st.lists(st.integers(0, len(data)), max_size=20)
    cuts = sorted(draw.draw(positions))
    whole = read_all(CommandReader(job_size_max=100), data)
    assert read_all(CommandReader(job_size_max=100), data, cuts) == whole
    assert read_all(CommandReader(job_size_max=100), data, range(1, len(data))) == whole
