"""What clients say to a beanstalkd: by name, the steps of ``Session``."""

NOT_FOUND = b"NOT_FOUND\r\n"

CASES: dict[str, list[str]] = {
    # put
    "put answers with an id": ["1 use {t}", "1 put 0 0 60 5|hello"],
    "ids grow": ["1 use {t}", "1 put 0 0 60 1|a", "1 put 0 0 60 1|b"],
    "put an empty body": ["1 use {t}", "1 put 0 0 60 0|", "1 peek {1}"],
    "put any bytes": ["1 use {t}", "1 put 0 0 60 2|\0\xff", "1 peek {1}"],
    "put a body with ends of lines": ["1 use {t}", "1 put 0 0 60 6|a|b|", "1 peek {1}"],
    "put more than was said": ["1 use {t}", "1 put 0 0 60 2|abc", "1 list-tube-used"],
    "put less than was said": ["1 use {t}", "1 put 0 0 60 4|ab", "1 x", "1 list-tube-used"],
    "put the largest": ["1 use {t}", "1 put 0 0 60 65535|" + "x" * 65535, "1 delete {1}"],
    "put too much": ["1 use {t}", "1 put 0 0 60 65536|" + "x" * 65536, "1 list-tube-used"],
    "put with a word for a number": ["1 put a 0 60 1", "1 put 0 a 60 1", "1 put 0 0 a 1"],
    "put with too few numbers": ["1 put 0 0 60", "1 put 0 0", "1 put 0", "1 put"],
    "put with a negative number": ["1 put -1 0 60 1", "1 put 0 -1 60 1", "1 put 0 0 -1 1"],
    "put with numbers at their limits": [
        "1 use {t}",
        "1 put 4294967295 4294967295 4294967295 1|a",
        "1 stats-job {1}",
        "1 put 4294967296 0 1 1",
    ],
    "put with something behind": ["1 put 0 0 60 1 x", "1 list-tube-used"],
    "put with many spaces": ["1 use {t}", "1 put  0   0    60  1|a"],
    "put without a ttr has one of a second": ["1 use {t}", "1 put 0 0 0 1|a", "1 stats-job {1}"],
    "put with a delay": ["1 use {t}", "1 put 0 100 60 1|a", "1 stats-job {1}", "1 peek-ready"],
    "put goes to the used tube": [
        *("1 use {t}-a", "1 put 0 0 60 1|a", "1 use {t}-b", "1 peek-ready", "1 stats-job {1}"),
    ],
    "a body cut off puts nothing": [
        "1 use {t}",
        "2 use {t}",
        "1 put 0 0 60 9|abc",
        "1 close",
        "2 peek-ready",
    ],
    # reserve
    "reserve gets what was put": ["1 use {t}", "1 watch {t}", "1 put 0 0 60 1|a", "1 reserve"],
    "reserve waits": ["1 watch {t}", "1 reserve", "2 use {t}", "2 put 0 0 60 1|a"],
    "reserve goes by priority": [
        *("1 use {t}", "1 watch {t}", "1 put 5 0 60 1|a", "1 put 3 0 60 1|b", "1 put 4 0 60 1|c"),
        *("1 reserve", "1 reserve", "1 reserve"),
    ],
    "reserve goes by age": [
        *("1 use {t}", "1 watch {t}", "1 put 5 0 60 1|a", "1 put 5 0 60 1|b"),
        *("1 reserve", "1 reserve"),
    ],
    "reserve goes by priority over tubes": [
        *("1 use {t}-a", "1 put 5 0 60 1|a", "1 use {t}-b", "1 put 3 0 60 1|b"),
        *("1 watch {t}-a", "1 watch {t}-b", "1 ignore default", "1 reserve", "1 reserve"),
    ],
    "reserve looks at watched tubes alone": [
        *("1 use {t}-a", "1 put 5 0 60 1|a", "1 watch {t}-b", "1 ignore default"),
        "1 reserve-with-timeout 0",
    ],
    "reserve at once": ["1 watch {t}", "1 ignore default", "1 reserve-with-timeout 0"],
    "reserve for a second": [
        *("1 watch {t}", "1 ignore default", "1 reserve-with-timeout 1", "sleep 1.2"),
    ],
    "reserve for very long": [
        *("1 watch {t}", "1 ignore default", "1 reserve-with-timeout 2147483647"),
        *("2 use {t}", "2 put 0 0 60 1|a"),
    ],
    "reserve with something behind": ["1 reserve x", "1 reserve ", "1 reservex"],
    "commands wait behind a reserve": [
        *("1 watch {t}", "1 ignore default", "1 reserve|list-tube-used", "2 use {t}"),
        "2 put 0 0 60 1|a",
    ],
    "a job goes to one of those who wait": [
        *("1 watch {t}", "2 watch {t}", "1 ignore default", "2 ignore default", "1 reserve"),
        *("2 reserve-with-timeout 1", "3 use {t}", "3 put 0 0 60 1|a", "sleep 1.2"),
    ],
    "a waiter that is gone takes no job": [
        *("1 watch {t}", "1 ignore default", "1 reserve", "1 close", "2 use {t}"),
        *("2 put 0 0 60 1|a", "2 watch {t}", "2 reserve"),
    ],
    "a waiter that says nothing more times out": [
        *("1 watch {t}", "1 ignore default", "1 reserve", "1 shut"),
    ],
    "what was said before the end is answered": ["1 use {t}|list-tube-used", "1 shut"],
    "a released job comes to who waits": [
        *("1 use {t}", "1 watch {t}", "1 put 0 0 60 1|a", "1 reserve"),
        *("2 watch {t}", "2 ignore default", "2 reserve", "1 release {1} 0 0"),
    ],
    "a kicked job comes to who waits": [
        *("1 use {t}", "1 watch {t}", "1 put 0 0 60 1|a", "1 reserve", "1 bury {1} 0"),
        *("2 watch {t}", "2 ignore default", "2 reserve", "1 kick 1"),
    ],
    "a delayed job comes to who waits": [
        *("1 use {t}", "1 put 0 1 60 1|a", "1 watch {t}", "1 ignore default", "1 reserve"),
        "sleep 1.3",
    ],
    "what is held comes back at the end of a connection": [
        *("1 use {t}", "1 watch {t}", "1 put 0 0 60 1|a", "1 reserve"),
        *("2 watch {t}", "2 ignore default", "2 reserve", "1 close", "2 stats-job {1}"),
    ],
    "what is held comes back when one quits": [
        *("1 use {t}", "1 watch {t}", "1 put 0 0 60 1|a", "1 reserve", "1 quit"),
        *("2 watch {t}", "2 ignore default", "2 reserve"),
    ],
    # reserve-job
    "reserve-job of a ready one": [
        "1 use {t}",
        "1 put 0 0 60 1|a",
        "1 reserve-job {1}",
        "1 stats-job {1}",
    ],
    "reserve-job of a delayed one": ["1 use {t}", "1 put 0 9 60 1|a", "1 reserve-job {1}"],
    "reserve-job of a buried one": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 bury {1} 5"),
        *("2 reserve-job {1}", "2 stats-job {1}"),
    ],
    "reserve-job of a reserved one": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 reserve-job {1}"),
        "2 reserve-job {1}",
    ],
    "reserve-job of none": ["1 reserve-job 18446744073709551615", "1 reserve-job 0"],
    "reserve-job of nonsense": [
        "1 reserve-job x",
        "1 reserve-job",
        "1 reserve-job -1",
        "1 reserve-job 18446744073709551616",
    ],
    "reserve-job needs no watching": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 pause-tube {t} 60", "2 reserve-job {1}"),
    ],
    # delete
    "delete a reserved one": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 delete {1}", "1 peek {1}"),
    ],
    "delete a ready one": ["1 use {t}", "1 put 0 0 60 1|a", "2 delete {1}", "1 peek-ready"],
    "delete a delayed one": ["1 use {t}", "1 put 0 9 60 1|a", "2 delete {1}", "1 peek-delayed"],
    "delete a buried one": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 bury {1} 0", "2 delete {1}"),
        "1 peek-buried",
    ],
    "delete what another has reserved": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "2 delete {1}", "1 delete {1}"),
    ],
    "delete twice": ["1 use {t}", "1 put 0 0 60 1|a", "1 delete {1}", "1 delete {1}"],
    "delete nonsense": [
        "1 delete x",
        "1 delete 1x",
        "1 delete -1",
        "1 delete 1 2",
        "1 delete 18446744073709551616",
    ],
    "delete beyond all ids": ["1 delete 9223372036854775808", "1 delete 18446744073709551615"],
    # release
    "release makes ready": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 release {1} 7 0"),
        *("1 stats-job {1}", "1 peek-ready"),
    ],
    "release with a delay": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 release {1} 7 9"),
        *("1 stats-job {1}", "1 peek-delayed"),
    ],
    "release what is not held": ["1 use {t}", "1 put 0 0 60 1|a", "1 release {1} 0 0"],
    "release what another holds": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "2 release {1} 0 0"),
    ],
    "release keeps the place": [
        *("1 use {t}", "1 watch {t}", "1 put 5 0 60 1|a", "1 put 5 0 60 1|b", "1 reserve"),
        *("1 release {1} 5 0", "1 reserve"),
    ],
    "release changes the priority": [
        *("1 use {t}", "1 watch {t}", "1 put 5 0 60 1|a", "1 put 5 0 60 1|b", "1 reserve"),
        *("1 release {1} 6 0", "1 reserve"),
    ],
    "release goes to the job's own tube": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 use {t}-b"),
        *("1 release {1} 0 0", "1 peek-ready", "1 stats-job {1}"),
    ],
    "release nonsense": [
        "1 release 1",
        "1 release 1 0",
        "1 release x 0 0",
        "1 release 1 0 0 0",
        "1 release 1 -1 0",
        "1 release 1 4294967296 0",
    ],
    # bury and kick
    "bury": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 bury {1} 9"),
        *("1 stats-job {1}", "1 peek-buried", "1 peek-ready"),
    ],
    "bury what is not held": ["1 use {t}", "1 put 0 0 60 1|a", "1 bury {1} 0"],
    "bury what another holds": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "2 bury {1} 0"),
    ],
    "bury nonsense": ["1 bury 1", "1 bury x 0", "1 bury 1 0 0", "1 bury 1 -1"],
    "kick in the order of burials": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 put 0 0 60 1|b", "1 put 0 0 60 1|c"),
        *("1 reserve-job {2}", "1 bury {2} 0", "1 reserve-job {3}", "1 bury {3} 0"),
        *("1 reserve-job {1}", "1 bury {1} 0", "1 kick 1", "1 peek-ready", "1 peek-buried"),
        *("1 kick 1", "1 peek-buried"),
    ],
    "kick buried ones alone": [
        *("1 use {t}", "1 put 0 9 60 1|a", "1 put 0 0 60 1|b", "1 reserve-job {2}"),
        *("1 bury {2} 0", "1 kick 10", "1 kick 10", "1 kick 10"),
    ],
    "kick the one that is due first": [
        *("1 use {t}", "1 put 0 90 60 1|a", "1 put 0 80 60 1|b", "1 kick 1", "1 peek-ready"),
        "1 peek-delayed",
    ],
    "kick none": ["1 use {t}", "1 kick 0", "1 kick 1"],
    "kick nonsense": ["1 kick x", "1 kick ", "1 kick"],
    "kick counts": ["1 use {t}", "1 put 0 9 60 1|a", "1 kick 1", "1 stats-job {1}"],
    "kick-job of a buried one": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 bury {1} 0"),
        *("2 kick-job {1}", "2 stats-job {1}"),
    ],
    "kick-job of a delayed one": [
        "1 use {t}",
        "1 put 0 9 60 1|a",
        "2 kick-job {1}",
        "2 stats-job {1}",
    ],
    "kick-job of a ready one": ["1 use {t}", "1 put 0 0 60 1|a", "1 kick-job {1}"],
    "kick-job of a reserved one": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 kick-job {1}"),
    ],
    "kick-job of none": ["1 kick-job 18446744073709551615", "1 kick-job x", "1 kick-job"],
    # touch and ttr
    "touch": ["1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "1 touch {1}"],
    "touch what is not held": ["1 use {t}", "1 put 0 0 60 1|a", "1 touch {1}"],
    "touch what another holds": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "2 touch {1}"),
    ],
    "touch nonsense": ["1 touch x", "1 touch", "1 touch 1 2"],
    # the last second
    "the last second is told of": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 0 1 1|a", "1 reserve"),
        "1 reserve",
    ],
    "the last second is told of who does not wait": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 0 1 1|a", "1 reserve"),
        "1 reserve-with-timeout 0",
    ],
    "the last second is told of who waits": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 0 2 1|a", "1 reserve"),
        *("1 reserve", "sleep 1.2"),
    ],
    "a job that is ready comes before the last second": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 0 1 1|a", "1 put 9 0 60 1|b"),
        *("1 reserve", "1 reserve"),
    ],
    "a job in a paused tube does not": [
        *("1 use {t}-b", "1 watch {t}-b", "1 put 0 0 60 1|b", "1 pause-tube {t}-b 60"),
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 0 1 1|a", "1 reserve"),
        "1 reserve",
    ],
    "a delete ends the last second": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 0 1 1|a", "1 reserve"),
        *("1 delete {1}", "1 reserve-with-timeout 0"),
    ],
    # peek
    "peek of any tube": ["1 use {t}", "1 put 0 0 60 1|a", "2 peek {1}"],
    "peek of a reserved one": ["1 use {t}", "1 put 0 0 60 1|a", "1 reserve-job {1}", "2 peek {1}"],
    "peek of none": ["1 peek 18446744073709551615", "1 peek 0"],
    "peek nonsense": [
        "1 peek x",
        "1 peek",
        "1 peek 1 2",
        "1 peek-readyx",
        "1 peek-buried 1",
        "1 peek-delayed 1",
    ],
    "peek-ready is the next": [
        *("1 use {t}", "1 put 5 0 60 1|a", "1 put 4 0 60 1|b", "1 peek-ready"),
    ],
    "peek-delayed is the next": [
        *("1 use {t}", "1 put 5 90 60 1|a", "1 put 6 80 60 1|b", "1 peek-delayed"),
    ],
    "peek of an empty tube": ["1 use {t}", "1 peek-ready", "1 peek-delayed", "1 peek-buried"],
    "peek changes nothing": ["1 use {t}", "1 put 0 0 60 1|a", "1 peek-ready", "1 stats-job {1}"],
    # tubes
    "use": ["1 list-tube-used", "1 use {t}", "1 list-tube-used"],
    "use nonsense": [
        "1 use",
        "1 use ",
        "1 use -x",
        "1 use x y",
        "1 use \xe4",
        "1 use  x",
        "1 use " + "a" * 201,
    ],
    "the longest name": ["1 use " + "a" * 200, "1 watch " + "b" * 200, "1 list-tubes-watched"],
    "all letters of names": ["1 use aZ09-+/;.$_()", "1 list-tube-used"],
    "names are case-sensitive": [
        *("1 use {t}a", "1 put 0 0 60 1|a", "1 use {t}A", "1 peek-ready"),
    ],
    "watch": ["1 watch {t}", "1 watch {t}", "1 watch {t}-b", "1 list-tubes-watched"],
    "watch nonsense": ["1 watch", "1 watch -x", "1 watch x y", "1 watch " + "a" * 201],
    "ignore": ["1 watch {t}", "1 ignore default", "1 list-tubes-watched"],
    "ignore the only one": ["1 ignore default", "1 list-tubes-watched"],
    "ignore what is not watched": ["1 ignore {t}", "1 list-tubes-watched"],
    "ignore nonsense": ["1 ignore", "1 ignore -x", "1 ignore " + "a" * 201],
    "watching again goes to the end": [
        *("1 watch {t}", "1 watch {t}-b", "1 ignore {t}", "1 watch {t}", "1 list-tubes-watched"),
    ],
    "list-tube-used with something behind": [
        "1 list-tube-used x",
        "1 list-tubes x",
        "1 list-tubes-watched x",
    ],
    # pause
    "pause of none": ["1 pause-tube {t} 1"],
    "pause": [
        *(
            "1 use {t}",
            "1 watch {t}",
            "1 ignore default",
            "1 put 0 0 60 1|a",
            "1 pause-tube {t} 60",
        ),
        *("1 reserve-with-timeout 0", "1 stats-tube {t}"),
    ],
    "a pause ends by itself": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 0 60 1|a", "1 pause-tube {t} 1"),
        *("1 reserve", "sleep 1.4"),
    ],
    "a pause is ended": [
        *(
            "1 use {t}",
            "1 watch {t}",
            "1 ignore default",
            "1 put 0 0 60 1|a",
            "1 pause-tube {t} 60",
        ),
        *("1 reserve", "2 pause-tube {t} 0"),
    ],
    "a later pause replaces the one before": [
        *("1 use {t}", "1 pause-tube {t} 60", "1 pause-tube {t} 10", "1 stats-tube {t}"),
    ],
    "a pause holds up nothing else": [
        *("1 use {t}", "1 pause-tube {t} 60", "1 put 0 0 60 1|a", "1 peek-ready"),
        *("1 reserve-job {1}", "1 touch {1}", "1 release {1} 0 5", "1 kick 1", "1 delete {1}"),
    ],
    "pause nonsense": [
        "1 pause-tube",
        "1 pause-tube x",
        "1 pause-tube -x 1",
        "1 pause-tube x -1",
        "1 pause-tube x y",
        "1 pause-tube x 4294967296",
    ],
    "a pause lets a waiter wait": [
        *("1 use {t}", "1 pause-tube {t} 60", "2 watch {t}", "2 ignore default", "2 reserve"),
        *("1 put 0 0 60 1|a", "1 pause-tube {t} 0"),
    ],
    # statistics
    "stats-job": ["1 use {t}", "1 put 3 0 60 1|a", "1 stats-job {1}"],
    "stats-job of a reserved one": [
        *("1 use {t}", "1 put 3 0 60 1|a", "1 reserve-job {1}", "2 stats-job {1}"),
    ],
    "stats-job counts": [
        *("1 use {t}", "1 put 3 0 60 1|a", "1 reserve-job {1}", "1 release {1} 1 0"),
        *("1 reserve-job {1}", "1 bury {1} 2", "1 kick 1", "1 reserve-job {1}"),
        *("1 release {1} 3 5", "1 stats-job {1}"),
    ],
    "stats-job of none": ["1 stats-job 18446744073709551615", "1 stats-job x", "1 stats-job"],
    "stats-tube": ["1 use {t}", "1 stats-tube {t}"],
    "stats-tube counts": [
        *("1 use {t}", "1 put 3 0 60 1|a", "1 put 2000 0 60 1|a", "1 put 3 9 60 1|a"),
        *("1 reserve-job {1}", "1 stats-tube {t}", "1 bury {1} 0", "1 stats-tube {t}"),
        *("1 delete {2}", "1 stats-tube {t}"),
    ],
    "stats-tube tells who waits": [
        *("1 watch {t}", "2 watch {t}", "2 ignore default", "2 reserve", "1 stats-tube {t}"),
    ],
    "stats-tube of none": ["1 stats-tube {t}", "1 stats-tube -x", "1 stats-tube", "1 statsx"],
    "a tube that nobody wants is gone": [
        *("1 use {t}", "2 stats-tube {t}", "1 use default", "2 stats-tube {t}"),
    ],
    "a tube is counted from its beginning": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 delete {1}", "1 use default", "1 use {t}"),
        "1 stats-tube {t}",
    ],
    "a tube stays while it holds jobs": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 use default", "1 stats-tube {t}", "1 delete {1}"),
        "1 stats-tube {t}",
    ],
    # lines
    "no command": ["1 x", "1 ", "1  reserve", "1 RESERVE", "1 foo bar"],
    "the longest line": ["1 " + "x" * 222, "1 list-tube-used"],
    "a line that is much too long": ["1 " + "x" * 5000, "1 list-tube-used"],
    "a line with a NUL": ["1 use a\0b", "1 list-tube-used"],
    "many commands at once": ["1 use {t}|put 0 0 60 1|a|peek-ready|list-tube-used"],
    "quit after what was said": ["1 use {t}|list-tube-used|quit"],
    "quit with something behind": ["1 quitx"],
    "nothing is answered after quit": ["1 quit|list-tube-used"],
    "spaces before numbers": ["1 use {t}", "1 put 0 0 60 1|a", "1 delete   {1}"],
    "something behind a number": ["1 peek 1x", "1 touch 1x", "1 release 1 2 3x", "1 bury 1 2x"],
    # pauses
    "a pause as long as can be": [
        *("1 use {t}", "1 pause-tube {t} 4294967295", "1 stats-tube {t}", "1 pause-tube {t} 0"),
        *("1 stats-tube {t}", "1 pause-tube {t} 4294967296"),
    ],
    "a pause in the place of another": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 0 60 1|a"),
        *("1 pause-tube {t} 100", "1 pause-tube {t} 1", "1 stats-tube {t}"),
        *("1 reserve", "sleep 1.5", "1 stats-tube {t}"),
    ],
    "a pause ends who waits": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 pause-tube {t} 100", "2 watch {t}"),
        *("2 ignore default", "2 reserve", "1 pause-tube {t} 0", "1 stats-tube {t}"),
    ],
    # more of both
    "a put cut in pieces": ["1 use {t}", "1 put 0 0 60 4|a|b", "1 list-tube-used"],
    "bodies that look like commands": [
        *("1 use {t}", "1 put 0 0 60 18|delete 1|reserve|x", "1 peek-ready", "1 list-tube-used"),
    ],
    "a put into a paused tube": [
        *(
            "1 use {t}",
            "1 pause-tube {t} 60",
            "1 put 0 0 60 1|a",
            "1 peek-ready",
            "1 stats-tube {t}",
        ),
    ],
    "reserve-job of what another tube holds": [
        *(
            "1 use {t}-a",
            "1 put 7 0 60 1|a",
            "2 use {t}-b",
            "2 reserve-job {1}",
            "2 release {1} 9 0",
        ),
        "1 peek-ready",
    ],
    "a delete by another while it is ready again": [
        *(
            "1 use {t}",
            "1 put 0 0 60 1|a",
            "1 reserve-job {1}",
            "1 release {1} 0 0",
            "2 delete {1}",
        ),
        "1 touch {1}",
    ],
    "delayed ones are not reserved": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 60 60 1|a"),
        "1 reserve-with-timeout 0",
    ],
    "buried ones are not reserved": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 0 60 1|a", "1 reserve"),
        *("1 bury {1} 0", "1 reserve-with-timeout 0"),
    ],
    "kick looks at the used tube alone": [
        *(
            "1 use {t}-a",
            "1 put 0 60 60 1|a",
            "1 use {t}-b",
            "1 kick 10",
            "1 use {t}-a",
            "1 kick 10",
        ),
    ],
    "a bound on a kick": [
        *("1 use {t}", "1 put 0 60 60 1|a", "1 put 0 61 60 1|b", "1 put 0 62 60 1|c", "1 kick 2"),
        *("1 peek-delayed", "1 kick 2"),
    ],
    "the end of one connection leaves the jobs of another": [
        *("1 use {t}", "1 put 0 0 60 1|a", "1 put 0 0 60 1|b", "1 reserve-job {1}"),
        *("2 reserve-job {2}", "2 close", "1 stats-job {1}", "1 touch {1}"),
    ],
    "reserves one after the other": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 0 60 1|a", "1 put 0 0 60 1|b"),
        "1 reserve-with-timeout 0|reserve-with-timeout 0|reserve-with-timeout 0",
    ],
    "a job goes through all of its states": [
        *("1 use {t}", "1 watch {t}", "1 ignore default", "1 put 0 60 60 1|a", "1 kick 1"),
        *("1 reserve", "1 bury {1} 3", "1 kick-job {1}", "1 reserve", "1 release {1} 2 60"),
        *("1 kick-job {1}", "1 reserve", "1 delete {1}", "1 stats-job {1}"),
    ],
    "three clients and two jobs": [
        *("1 use {t}", "1 put 1 0 60 1|a", "1 put 2 0 60 1|b", "2 watch {t}", "2 ignore default"),
        *("3 watch {t}", "3 ignore default", "2 reserve", "3 reserve", "2 release {1} 3 0"),
        *("3 delete {1}", "3 delete {2}"),
    ],
}

# Steps with what each client hears after them: the reference loses some of these expiries.
OF_TTR: dict[str, list[tuple[str, dict[str, list[bytes]]]]] = {
    "a job comes back after its ttr": [
        ("1 put 0 0 1 1|a", {"1": [b"INSERTED {1}\r\n"]}),
        ("1 reserve-job {1}", {"1": [b"RESERVED {1} 1\r\na\r\n"]}),
        ("sleep 1.6", {}),
        ("1 touch {1}", {"1": [NOT_FOUND]}),
        ("1 release {1} 0 0", {"1": [NOT_FOUND]}),
        ("1 bury {1} 0", {"1": [NOT_FOUND]}),
        ("1 delete {1}", {"1": [b"DELETED\r\n"]}),
    ],
    "who is late may not delete what another has": [
        ("1 put 0 0 1 1|a", {"1": [b"INSERTED {1}\r\n"]}),
        ("1 reserve-job {1}", {"1": [b"RESERVED {1} 1\r\na\r\n"]}),
        ("sleep 1.6", {}),
        ("2 reserve-job {1}", {"2": [b"RESERVED {1} 1\r\na\r\n"]}),
        ("1 delete {1}", {"1": [NOT_FOUND]}),
        ("2 delete {1}", {"2": [b"DELETED\r\n"]}),
    ],
    "a job whose ttr is over comes to who waits": [
        ("1 use {t}", {"1": [b"USING a-job-whose-ttr-is-over-comes-to-who-waits\r\n"]}),
        ("1 put 0 0 1 1|a", {"1": [b"INSERTED {1}\r\n"]}),
        ("1 reserve-job {1}", {"1": [b"RESERVED {1} 1\r\na\r\n"]}),
        ("2 watch {t}", {"2": [b"WATCHING 2\r\n"]}),
        ("2 ignore default", {"2": [b"WATCHING 1\r\n"]}),
        ("2 reserve", {}),
        ("sleep 1.5", {"2": [b"RESERVED {1} 1\r\na\r\n"]}),
    ],
    "a touch begins the ttr again": [
        ("1 put 0 0 2 1|a", {"1": [b"INSERTED {1}\r\n"]}),
        ("1 reserve-job {1}", {"1": [b"RESERVED {1} 1\r\na\r\n"]}),
        ("sleep 1.0", {}),
        ("1 touch {1}", {"1": [b"TOUCHED\r\n"]}),
        ("sleep 1.2", {}),
        ("2 reserve-job {1}", {"2": [NOT_FOUND]}),
        ("sleep 1.4", {}),
        ("2 reserve-job {1}", {"2": [b"RESERVED {1} 1\r\na\r\n"]}),
    ],
}
