"""Tables: what is known of a job, as rows of the diagnosis."""
