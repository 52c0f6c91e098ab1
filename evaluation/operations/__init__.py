"""Operations studies beside published figures: ``python -m evaluation operations``."""
