"""Domain of the decision service: experiments, decisions and feedback, without HTTP."""
