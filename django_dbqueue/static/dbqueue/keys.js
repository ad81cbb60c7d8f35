/* Keys: "/" goes to the search, "?" opens the help of keys, where a page has one. */
'use strict';
{
    const start = function() {
        const help = document.querySelector('dialog[data-dbqueue-help]');
        const button = document.querySelector('[data-dbqueue-keys]');
        const box = document.querySelector('#searchbar, [data-dbqueue-search]');

        const isTyped = (element) => element && (element.isContentEditable ||
            element.matches('input, textarea, select'));

        const open = () => {
            if (help && help.showModal && !help.open) {
                help.showModal();
            }
        };

        if (button && help && help.showModal) {
            button.hidden = false;
            button.addEventListener('click', open);
        }

        document.addEventListener('keydown', (event) => {
            if (event.key === 'Escape' && document.activeElement === box) {
                box.blur();
                return;
            }
            const isHeld = event.ctrlKey || event.metaKey || event.altKey;
            if (event.defaultPrevented || isHeld || isTyped(document.activeElement) || (help && help.open)) {
                return;
            }
            if (event.key === '/' && box) {
                event.preventDefault();
                box.focus();
                box.select();
            } else if (event.key === '?' && help && help.showModal) {
                event.preventDefault();
                open();
            }
        });
    };

    if (document.readyState === 'loading') {
        document.addEventListener('DOMContentLoaded', start);
    } else {
        start();
    }
}
