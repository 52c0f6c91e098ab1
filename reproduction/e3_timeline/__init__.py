"""E3: how exactly is the timeline of every rank of a large job inferred?"""
