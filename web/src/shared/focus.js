/** A ref of an element that gets the focus when it appears in the place of the one that had it. Its identity is stable: a ref that is a new function in each rendering is called in each. */
export const focusAtStart = (element) => element?.focus();
