/* Regions of a page that renew themselves: [data-dbqueue-region] is replaced by what the page's own
   address answers, as often as the select [data-dbqueue-live] says. What is said next to it stands
   in the page, in its language. */
'use strict';
{
    const KEY = 'dbqueue.live';
    const SLOWEST = 60;
    const PATIENCE = 30;
    const BOX = '[data-dbqueue-live-box]';
    const STATE = '[data-dbqueue-live-state]';
    const REGION = '[data-dbqueue-region]';
    const CHECKED = 'input[type=checkbox].action-select:checked, #action-toggle:checked';
    const KEYED = '[id], [data-key], details[data-filter-title]';

    class Refusal extends Error {
        constructor(status) {
            super();
            this.status = status;
        }
    }

    const start = function() {
        const select = document.querySelector('select[data-dbqueue-live]');
        if (!select || !window.fetch || !window.DOMParser) {
            return;
        }
        const state = document.querySelector(STATE);
        let timer = null;
        let running = null;
        let failures = 0;
        let stopped = false;

        const say = (text) => {
            state.textContent = text;
        };

        /* A text of the page, with values in place of {names}. */
        const words = (name, values = {}) => (state.dataset[name] || '').replace(
            /\{(\w+)\}/g, (whole, key) => key in values ? values[key] : whole);

        const seconds = () => Math.min(SLOWEST, Math.max(0, Number(select.value) || 0));

        const remember = (value) => {
            try {
                window.localStorage.setItem(KEY, value);
            } catch {
                // It may be forbidden: then it is forgotten.
            }
        };

        const recall = () => {
            let value = null;
            try {
                value = window.localStorage.getItem(KEY);
            } catch {
                return;
            }
            if ([...select.options].some((option) => option.value === value)) {
                select.value = value;
            }
        };

        const isField = (element) => element && element !== select &&
            (element.isContentEditable || element.matches('textarea, select, input:not([type=checkbox], ' +
                '[type=radio], [type=submit], [type=button], [type=reset])'));

        /* Why nothing must be changed under somebody's hands, or ''. */
        const busy = () => {
            if (document.hidden) {
                return words('hidden');
            }
            if (isField(document.activeElement)) {
                return words('field');
            }
            if (document.querySelector(CHECKED)) {
                return words('chosen');
            }
            const selection = window.getSelection();
            if (selection && !selection.isCollapsed) {
                return words('selected');
            }
            return document.querySelector('dialog[open]') ? words('asking') : '';
        };

        const plan = () => {
            window.clearTimeout(timer);
            timer = null;
            if (stopped || !seconds()) {
                return;
            }
            const slower = Math.max(seconds(), Math.min(SLOWEST, seconds() * 2 ** failures));
            timer = window.setTimeout(turn, slower * 1000);
        };

        const abort = () => {
            if (running) {
                running.abort();
                running = null;
            }
        };

        const keyOf = (element) => {
            if (element.id) {
                return `#${element.id}`;
            }
            return element.dataset.key || element.dataset.filterTitle || '';
        };

        const byKey = (region) => {
            const found = new Map();
            region.querySelectorAll(KEYED).forEach((element) => found.set(keyOf(element), element));
            found.set(keyOf(region) || '.', region);
            return found;
        };

        const keep = (region) => {
            const active = region.contains(document.activeElement) ? document.activeElement : null;
            const kept = [...byKey(region)].map(([key, element]) => [key, {
                open: element.open, left: element.scrollLeft, top: element.scrollTop,
            }]);
            return {kept: kept, focus: active ? keyOf(active) : ''};
        };

        const giveBack = (region, {kept, focus}) => {
            const now = byKey(region);
            for (const [key, before] of kept) {
                const element = now.get(key);
                if (!element) {
                    continue;
                }
                if (element.tagName === 'DETAILS') {
                    element.open = before.open;
                }
                element.scrollLeft = before.left;
                element.scrollTop = before.top;
            }
            if (focus && now.has(focus)) {
                now.get(focus).focus({preventScroll: true});
            }
        };

        const setUpActions = (region) => {
            const boxes = region.querySelectorAll('tr input.action-select');
            if (boxes.length && window.Actions) {
                window.Actions(boxes);
            }
        };

        const withoutTokens = (region) => {
            const copy = region.cloneNode(true);
            copy.querySelectorAll('input[name=csrfmiddlewaretoken]').forEach((input) => input.remove());
            return copy.innerHTML;
        };

        const swap = (fresh) => {
            const [x, y] = [window.scrollX, window.scrollY];
            document.querySelectorAll(REGION).forEach((region) => {
                const name = CSS.escape(region.dataset.dbqueueRegion);
                const its = fresh.querySelector(`[data-dbqueue-region="${name}"]`);
                // What is the same is left alone, so that it is not read out again.
                if (!its || withoutTokens(its) === withoutTokens(region)) {
                    return;
                }
                const before = keep(region);
                region.replaceChildren(...document.adoptNode(its).childNodes);
                giveBack(region, before);
                setUpActions(region);
            });
            window.scrollTo(x, y);
        };

        const stop = (why) => {
            stopped = true;
            say(why);
        };

        const ask = async(signal) => {
            const response = await fetch(window.location.href, {
                headers: {'X-DBQueue-Live': '1'},
                credentials: 'same-origin',
                cache: 'no-store',
                redirect: 'manual',
                signal: signal,
            });
            if (response.type === 'opaqueredirect') {
                stop(words('gone'));
                return;
            }
            if (!response.ok) {
                throw new Refusal(response.status);
            }
            const text = await response.text();
            failures = 0;
            const why = busy();
            if (why) {
                say(why);
                return;
            }
            const fresh = new DOMParser().parseFromString(text, 'text/html');
            swap(fresh);
            const its = fresh.querySelector(STATE);
            said(its ? its.dataset.dbqueueNow : '');
        };

        // By the clock of the server, as all other times on the page are.
        const said = (now) => say(now ? words('updated', {time: now}) : '');

        const whyNot = (error) => {
            if (error instanceof Refusal) {
                return words('answers', {status: error.status});
            }
            const isAway = error instanceof TypeError;
            return isAway ? words('unreachable') : words('failed', {reason: error.message});
        };

        const turn = async() => {
            const why = busy();
            if (why) {
                say(why);
                plan();
                return;
            }
            abort();
            const mine = running = new AbortController();
            const late = window.setTimeout(() => mine.abort('late'), PATIENCE * 1000);
            try {
                await ask(mine.signal);
            } catch (error) {
                if (running !== mine) {
                    return;
                }
                failures += 1;
                say(mine.signal.aborted ? words('late', {seconds: PATIENCE}) : whyNot(error));
            } finally {
                window.clearTimeout(late);
            }
            if (running === mine) {
                running = null;
                plan();
            }
        };

        select.addEventListener('change', () => {
            remember(select.value);
            abort();
            failures = 0;
            stopped = false;
            say(seconds() ? '' : words('off'));
            plan();
        });
        document.addEventListener('visibilitychange', () => {
            if (document.hidden) {
                abort();
                window.clearTimeout(timer);
            } else if (!stopped && seconds()) {
                window.clearTimeout(timer);
                turn();
            }
        });

        recall();
        document.querySelectorAll(BOX).forEach((box) => {
            box.hidden = false;
        });
        if (seconds()) {
            said(state.dataset.dbqueueNow);
        } else {
            say(words('off'));
        }
        plan();
    };

    if (document.readyState === 'loading') {
        document.addEventListener('DOMContentLoaded', start);
    } else {
        start();
    }
}
