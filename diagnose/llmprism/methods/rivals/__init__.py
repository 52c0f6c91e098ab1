"""Methods that others are compared with: one that knows nothing, and two of another kind.

They are short, and use none of the stages of the other methods. A comparison shows which of the
figures of a method are more than what anybody would get.
"""
