check_model = None
