MulticlassModel = None
