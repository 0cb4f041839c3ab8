"""WHAT HAPPENS: firing, dispatch, the pipeline, settling and the sweep; read them in that order."""
